"""One screen for each tab, and the dialogs."""
