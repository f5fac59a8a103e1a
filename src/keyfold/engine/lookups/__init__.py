"""Lookups: static sides of joins, loaded and reloaded."""
