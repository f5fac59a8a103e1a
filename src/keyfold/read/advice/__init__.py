"""Advice for operators, in words and with commands, from what is recorded of an app."""
