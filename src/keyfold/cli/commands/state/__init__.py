"""Commands that read, edit, save and verify state."""
