"""Two states of a table, compared key by key: what was added, removed and changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from keyfold.engine.recovery.state_parts import PartRows
from keyfold.errors import BadOption

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from keyfold.engine.savepoint.state_reading import StateOf

Change = Literal["added", "removed", "changed"]
_VALUES: Final = "_values"


@dataclass(frozen=True)
class KeyDifference:
    """A key whose state is not the same: all rows that either side has for it, as JSON has them."""

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
    before, after = _by_key(first, keys), _by_key(second, keys)
    joined = before.alias("a").join(
        after.alias("b"), F.expr(" and ".join(f"a.`{k}` <=> b.`{k}`" for k in keys)), "full"
    )
    key = [F.coalesce(F.col(f"a.`{k}`"), F.col(f"b.`{k}`")).alias(f"k{n}") for n, k in enumerate(keys)]
    sides = [F.col(f"a.{_VALUES}").alias("before"), F.col(f"b.{_VALUES}").alias("after")]
    found = joined.select(*key, *sides).where(~F.col("before").eqNullSafe(F.col("after")))
    found = found.orderBy(*(f"k{n}" for n in range(len(keys))))
    for row in (found if limit is None else found.limit(limit)).toLocalIterator():
        values = {name: row[f"k{n}"] for n, name in enumerate(keys)}
        yield KeyDifference(values, _change(row), _rows(row["before"]), _rows(row["after"]))


def _by_key(rows: PartRows, keys: list[str]) -> DataFrame:
    """A row for each key, with all its values as JSON, in one order."""
    from pyspark.sql import functions as F

    values = [F.col(f"`{name}`") for name in rows.frame.columns if name not in keys]
    whole = F.to_json(F.struct(*values), {"ignoreNullFields": "false"}) if values else F.lit("{}")
    return rows.frame.groupBy(*(F.col(f"`{name}`") for name in keys)).agg(
        F.sort_array(F.collect_list(whole)).alias(_VALUES)
    )


def _change(row: Any) -> Change:
    return "added" if row["before"] is None else "removed" if row["after"] is None else "changed"


def _rows(texts: list[str] | None) -> list[dict[str, Any]]:
    return [json.loads(text) for text in texts or ()]
