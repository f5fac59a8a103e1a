"""What is drawn and logged while an app runs."""
