"""Checks and repairs at a start: definition, state, view, readers; restarts of queries, and why they fail."""
