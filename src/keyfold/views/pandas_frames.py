"""Rows of a view as a pandas DataFrame; a module of its own, so that pandas is imported only on demand."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import pandas as pd

from keyfold.views.schema import ViewSchema
from keyfold.views.types.base import DataType
from keyfold.views.types.numbers import Integer
from keyfold.views.types.scalars import Boolean, Floating
from keyfold.views.types.temporal import Timestamp


def frame(rows: Iterable[dict[str, Any]], schema: ViewSchema) -> pd.DataFrame:
    """A DataFrame with the view's columns, even without rows."""
    kept = list(rows)
    data = {column.name: _series([row[column.name] for row in kept], column.type) for column in schema.all}
    return pd.DataFrame(data)


def _series(values: list[Any], kind: DataType) -> pd.Series[Any]:
    return pd.Series(values, dtype=_dtype(values, kind))


def _dtype(values: list[Any], kind: DataType) -> str:
    nulls = None in values
    if isinstance(kind, Integer):
        return "Int64" if nulls else "int64"
    if isinstance(kind, Boolean):
        return "boolean" if nulls else "bool"
    # Timestamps outside Python's years are text; a column with one stays as it is.
    if isinstance(kind, Timestamp) and all(value is None or isinstance(value, datetime) for value in values):
        return "datetime64[us, UTC]" if kind.zoned else "datetime64[us]"
    return "float64" if isinstance(kind, Floating) else "object"
