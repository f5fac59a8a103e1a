"""The command line: `keyfold run`, `get`, `rows`, `late`, `rejected`, `describe`, `check`.

One file per command; `commands.py` lists them, `ending.py` says how each may end. Loading this package loads
neither Spark nor Arrow: commands import what they need when they are called.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command line, that of the process by default, and returns its exit code."""
    from keyfold.cli.ending import conduct

    return conduct(argv)
