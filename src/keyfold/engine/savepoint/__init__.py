"""Savepoints: an app's state, position, log and views at one moment, to go back to or to clone."""
