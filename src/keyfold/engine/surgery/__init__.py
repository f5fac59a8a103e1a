"""Changes or removes one key of a table's state, on a copy that then replaces the old state."""
