"""Checks and repairs at a start: definition, state, view, readers; removal of tables; why queries fail."""
