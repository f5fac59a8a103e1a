"""Patterns as data: their syntax, the automaton compiled from it, and steps that can never be reached."""
