"""Expressions of the user's as Spark's columns."""

from __future__ import annotations

from typing import Any

from keyfold.plan.nodes import Expr


def column(expression: Expr) -> Any:
    """A Spark column from SQL text, or from the user's function."""
    from pyspark.sql import functions as F

    return F.expr(expression) if isinstance(expression, str) else expression()
