"""Runs recorded batches under changed code, beside the app, and compares the rows: `plan --shadow`."""
