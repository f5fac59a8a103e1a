"""Followers of a table's changes: sinks."""
