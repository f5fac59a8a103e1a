"""The initial content of a table, before its stream: rows of files, or the state of a savepoint."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from keyfold.plan.nodes import Connector


@dataclass(frozen=True)
class InitialRows:
    """Initial rows of a table, before those of its stream: files, up to a boundary.

    Initial rows have event times before `until`, rows of the stream do not; None is right after the newest
    row of the files.
    """

    connector: Connector
    until: datetime | None = None


@dataclass(frozen=True)
class InitialState:
    """The initial state of a table: that of a table in a savepoint; None is the table's own name.

    The table continues at the savepoint's position in the stream.
    """

    savepoint: str
    app: str | None = None
    table: str | None = None
    home: str | None = None


Initial: TypeAlias = InitialRows | InitialState
