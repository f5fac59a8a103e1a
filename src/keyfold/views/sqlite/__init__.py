"""The view store on one SQLite file."""
