"""What a table begins with, before its stream: rows of files, or the state of a savepoint."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from keyfold.plan.nodes import Connector


@dataclass(frozen=True)
class InitialRows:
    """Rows that a table begins with, before those of its stream: files, up to a boundary.

    Initial rows have event times before `until`, rows of the stream do not; None is right after the newest
    row of the files.
    """

    connector: Connector
    until: datetime | None = None


@dataclass(frozen=True)
class InitialState:
    """The state that a table begins with: that of a table in a savepoint; None is the table's own name.

    The table goes on from the savepoint's position in the stream.
    """

    savepoint: str
    app: str | None = None
    table: str | None = None
    home: str | None = None


Initial: TypeAlias = InitialRows | InitialState
