"""A table's changelog on disk, and how it reaches the tables that read it."""
