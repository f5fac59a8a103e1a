"""Spark's data types, and how their values are kept exactly."""
