"""The user's expressions as Spark columns."""

from __future__ import annotations

from typing import Any

from keyfold.plan.nodes import Expr


def column(expression: Expr) -> Any:
    """A Spark column from SQL text, or from the user's function."""
    from pyspark.sql import Column
    from pyspark.sql import functions as F

    if isinstance(expression, str):
        return F.expr(expression)
    made = expression()
    if not isinstance(made, Column):
        raise TypeError(f"it returned {made!r}, not a column; SQL text needs no function around it")
    return made
