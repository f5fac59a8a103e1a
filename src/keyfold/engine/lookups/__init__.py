"""Lookups: static tables that streams are joined with, loaded and reloaded."""
