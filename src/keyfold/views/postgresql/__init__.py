"""The view store in a PostgreSQL database."""
