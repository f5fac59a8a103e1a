"""Another number of partitions for a table's state."""
