"""Commands that run an app and watch it."""
