"""Runs an app while a command lasts."""
