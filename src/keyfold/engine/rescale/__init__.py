"""Changes the number of partitions of a table's state."""
