"""How what Spark's state store holds is read: by column, by key, as rows of the table."""
