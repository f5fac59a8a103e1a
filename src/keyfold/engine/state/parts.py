"""The parts of a table's state: the state variables of its operators, each readable by column."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from keyfold.engine import session
from keyfold.engine.state import columns as state_columns
from keyfold.errors import QueryError, did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MAIN: Final = "state"
"""The default part: what the table itself folds."""
TIMERS: Final = "timers"
_INTERNAL: Final = {"heads"}
"""State variables that only locate the rows of others."""


@dataclass(frozen=True)
class PartRows:
    """The rows of a part, and which of their columns are key columns; a side of a join has none."""

    frame: DataFrame
    keys: tuple[str, ...]


@dataclass(frozen=True)
class StatePart:
    """A state variable of an operator; the table itself is operator 0, what feeds it has higher numbers."""

    operator: int
    variable: str
    kind: str
    by_processor: bool
    """Whether a user's processor declares it, so that its columns have the declared names."""

    @property
    def name(self) -> str:
        """The name for users: `state`, `kept`, `timers`; `1.state` for another operator."""
        return self.variable if self.operator == 0 else f"{self.operator}.{self.variable}"


def parts(spark: SparkSession, checkpoint: str, batch: int) -> list[StatePart]:
    """The parts of a checkpoint's state, those of the table itself first."""
    found = session.kernel(spark).stateOperators(spark._jsparkSession, checkpoint, batch)
    return [part for operator in sorted(json.loads(found)) for part in _of_operator(*operator)]


def _of_operator(operator: int, name: str, properties: str) -> Iterator[StatePart]:
    if name == "symmetricHashJoin":
        for side in ("left", "right"):
            yield StatePart(operator, side, "join", False)
        return
    by_processor = name != "transformWithStateExec"
    variables = sorted(json.loads(properties)["stateVariables"], key=_place)
    for variable in variables:
        name, kind = variable["stateName"], variable["stateVariableType"]
        if kind == "TimerState":
            yield StatePart(operator, TIMERS, kind, by_processor)
        elif by_processor or name not in _INTERNAL:
            yield StatePart(operator, name, kind, by_processor)


def _place(variable: dict[str, Any]) -> tuple[bool, bool, str]:
    """The table's own fold first, timers last."""
    name = variable["stateName"]
    return name != MAIN, variable["stateVariableType"] == "TimerState", name


def find_part(table: str, known: list[StatePart], name: str | None) -> StatePart:
    """The part with a name; without a name the main part, or the first one."""
    names = [part.name for part in known]
    wanted = name or (MAIN if MAIN in names else names[0])
    if wanted not in names:
        raise QueryError(
            f"the state of {table} has no part {wanted}",
            reason="not_found",
            given=wanted,
            hint=did_you_mean(wanted, names, f"one of {', '.join(names)}"),
        )
    return known[names.index(wanted)]


def rows(spark: SparkSession, checkpoint: str, batch: int, part: StatePart) -> PartRows:
    """The rows of a part, with columns by name: those of the key, then those of the value."""
    source = (
        spark.read.format("statestore")
        .option("path", checkpoint)
        .option("batchId", batch)
        .option("operatorId", part.operator)
    )
    if part.kind == "join":
        return PartRows(state_columns.of_join(source.option("joinSide", part.variable).load()), ())
    timers = part.kind == "TimerState"
    option = ("readRegisteredTimers", "true") if timers else ("stateVarName", part.variable)
    read = source.option(*option).load()
    return PartRows(state_columns.unpack(read, part.by_processor), state_columns.keys(read))


def of_key(found: PartRows, table: str, values: list[str]) -> PartRows:
    """The rows of a key, or of all keys that begin with these values."""
    from pyspark.sql import functions as F

    frame = found.frame
    names = found.keys or tuple(frame.columns)
    if len(values) > len(names):
        raise QueryError(
            f"the key of this state of {table} is {', '.join(names)}",
            given=", ".join(values),
            hint="a value for each column of the key, or for the first ones",
        )
    for name, value in zip(names, values, strict=False):
        wanted = F.lit(value).try_cast(frame.schema[name].dataType)
        frame = frame.where(F.col(f"`{name}`") == wanted)
    return PartRows(frame, found.keys)
