"""Patterns as data: their syntax, the automaton compiled from it, and the check for unreachable steps."""
