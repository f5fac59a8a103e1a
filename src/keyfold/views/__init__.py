"""The read side of tables: the view store interface, its implementations, and readers."""
