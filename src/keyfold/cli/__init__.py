"""The command line: one file per command in `commands/`, listed in `registry.py`; `main.py` runs one.

Loading this package loads neither Spark nor Arrow: commands import what they need when they are called.
"""
