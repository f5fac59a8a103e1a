"""Checks of declarations, made when they are declared: what, where, given, and what to write instead."""
