"""Rebuilds tables from the rows of their streams, beside the old ones: `keyfold rebuild`, and migrations."""
