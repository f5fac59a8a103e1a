"""A table's declaration compiled to a Spark plan."""
