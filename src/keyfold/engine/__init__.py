"""Compiles declarations to Spark queries, runs them, handles each batch, and recovers."""
