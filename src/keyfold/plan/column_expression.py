"""An expression that is given as a Spark `Column`, in place of SQL."""

from __future__ import annotations

from typing import Any


class ColumnExpression:
    """A Spark `Column` that the user made with a session, as a function that returns it."""

    def __init__(self, column: Any) -> None:
        self._column = column
        self.text = str(column._jc.toString())

    def __call__(self) -> Any:
        return self._column

    def __repr__(self) -> str:
        return f"ColumnExpression({self.text})"
