"""What users' tests and ours share: fakes that speak the real protocols."""
