"""Reads Spark's state store: by column, by key, as rows of the table."""
