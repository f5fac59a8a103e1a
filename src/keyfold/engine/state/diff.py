"""Compares two states of a table key by key: what was added, removed and changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from keyfold.engine.state.parts import PartRows
from keyfold.errors import BadOption

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from keyfold.engine.state.state_of import StateOf

Change = Literal["added", "removed", "changed"]


@dataclass(frozen=True)
class KeyDifference:
    """A key whose state differs: the rows of either side for it, as JSON values."""

    key: dict[str, Any]
    change: Change
    before: list[dict[str, Any]]
    after: list[dict[str, Any]]


def differences(
    spark: SparkSession, one: StateOf, other: StateOf, part: str | None, limit: int | None
) -> Iterator[KeyDifference]:
    """The keys that differ between two states, in the order of their keys."""
    from pyspark.sql import functions as F

    first, second = one.rows(spark, part), other.rows(spark, part)
    if first.keys != second.keys:
        raise BadOption(
            f"{one.table} and {other.table} have other keys, so that they can't be compared",
            given=f"{', '.join(first.keys)}; {', '.join(second.keys)}",
            hint="states of the same table, or of tables with equal keys",
        )
    keys = list(first.keys) or first.frame.columns
    # In one aggregation: a join of two takes a cold Spark much longer to plan.
    both = _of_side(first, keys, "before").unionByName(_of_side(second, keys, "after"))
    sides = [F.sort_array(F.collect_list(side)).alias(side) for side in ("before", "after")]
    found = both.groupBy(*(f"k{n}" for n in range(len(keys)))).agg(*sides).where("before <> after")
    found = found.orderBy(*(f"k{n}" for n in range(len(keys))))
    for row in found.toLocalIterator() if limit is None else found.limit(limit).collect():
        values = {name: row[f"k{n}"] for n, name in enumerate(keys)}
        yield KeyDifference(values, _change(row), _rows(row["before"]), _rows(row["after"]))


def _of_side(rows: PartRows, keys: list[str], side: str) -> DataFrame:
    """The rows of a state: their keys, and all their values as JSON, as those of a side."""
    from pyspark.sql import functions as F

    values = [F.col(f"`{name}`") for name in rows.frame.columns if name not in keys]
    whole = F.to_json(F.struct(*values), {"ignoreNullFields": "false"}) if values else F.lit("{}")
    named = [F.col(f"`{name}`").alias(f"k{n}") for n, name in enumerate(keys)]
    sides = {"before": F.lit(None).cast("string"), "after": F.lit(None).cast("string"), side: whole}
    return rows.frame.select(*named, *(value.alias(name) for name, value in sides.items()))


def _change(row: Any) -> Change:
    return "added" if not row["before"] else "removed" if not row["after"] else "changed"


def _rows(texts: list[str]) -> list[dict[str, Any]]:
    return [json.loads(text) for text in texts]
