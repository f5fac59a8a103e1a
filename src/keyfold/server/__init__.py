"""Serves the apps of a home over HTTP from views, logs and status; starts no Spark and changes nothing."""
