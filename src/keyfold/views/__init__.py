"""The read side: the newest row of each key, readable while the app runs and after it stopped."""
