"""Erases a key from everything in an app's home, with a receipt."""
