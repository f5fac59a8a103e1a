"""The command line: one module per command in `commands/`, listed in `registry.py`; `main.py` runs one.

Importing this package imports neither Spark nor Arrow: commands import what they need when they run.
"""
