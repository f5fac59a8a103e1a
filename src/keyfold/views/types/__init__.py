"""Spark's data types: names, Arrow types and exact conversion of values; no store's layout."""
