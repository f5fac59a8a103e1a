"""Migrates a table's state, log and view to a changed definition."""
