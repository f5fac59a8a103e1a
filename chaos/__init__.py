"""Kills an app that has every kind of table, again and again, and compares it with one that nobody killed."""
