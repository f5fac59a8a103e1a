"""Explains a row: from a change of its key to its batch, and to the rows that this read."""
