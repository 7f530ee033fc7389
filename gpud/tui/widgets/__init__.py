"""What Textual shows."""
