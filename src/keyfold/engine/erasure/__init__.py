"""A key out of all that an app's home has, with a receipt."""
