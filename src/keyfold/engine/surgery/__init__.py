"""Other values for one key of a table's state, or none, on a copy that takes its place."""
