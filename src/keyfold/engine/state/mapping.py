"""Maps the fields and keys of a stored state to those of a changed definition, and says what can't be mapped.

Both definitions record their layout: the fields of a key's state, each with the aggregate or fold that it
belongs to, whatever the field is called.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.storage.stored_app import StoredTable
from keyfold.plan.nodes import Expr, FoldSpec, ProcessSpec, TableSpec

Layout = Mapping[str, Any]
_FOLD: Final = "fold "
_INTEGERS: Final = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 20}
_ORDERED: Final = ("first(", "last(", "any_value(", "collect_list(", "listagg(", "max_by(", "min_by(")


@dataclass(frozen=True)
class FieldSource:
    """Where a field of the new state comes from: a field of the old one, or an expression on several."""

    field: str
    copied: str | None = None
    expression: Expr | None = None
    names: tuple[str, ...] = ()
    """What the fields of the old state are called in the expression, as in `state.<name>`."""
    fields: tuple[str, ...] = ()


@dataclass(frozen=True)
class KeySource:
    """Where a key column comes from: one of the old key, or an expression on it."""

    name: str
    type: str
    copied: str | None = None
    expression: Expr | None = None


@dataclass
class StateMapping:
    """How the old state becomes the new one; impossible if there are problems."""

    fields: list[FieldSource] = field(default_factory=list)
    keys: list[KeySource] = field(default_factory=list)
    dropped_keys: list[str] = field(default_factory=list)
    effects: list[str] = field(default_factory=list)
    """What the mapping does, in words."""
    added: list[str] = field(default_factory=list)
    """Columns that start empty."""
    redefined: list[str] = field(default_factory=list)
    """Columns that have another meaning under the same name."""
    renames: dict[str, str] = field(default_factory=dict)
    """The old names of renamed columns and keys, by their new ones."""
    problems: list[str] = field(default_factory=list)

    @property
    def merges(self) -> bool:
        """Whether several keys become one."""
        return bool(self.dropped_keys)


def map_state(old: StoredTable, meaning: Mapping[str, str], compiled: Compiled) -> StateMapping:
    """The mapping from a stored definition to a new one, of which it is the meaning."""
    found = StateMapping()
    layout: Layout = old.layout
    if not layout.get("fields") or not compiled.layout.get("fields"):
        found.problems.append(_unknown_cause(layout, compiled))
        return found
    before = old.meaning
    _map_fields(found, layout, compiled, before, meaning)
    _map_columns(found, compiled, before, meaning)
    _map_keys(found, layout, compiled, before, meaning)
    return found


def _unknown_cause(layout: Layout, compiled: Compiled) -> str:
    if isinstance(compiled.spec.body, ProcessSpec):
        return "only its processor can interpret its state"
    if compiled.layout.get("kind") == "other" or layout.get("kind") == "other":
        return "its state has retained rows or partial matches, whose columns can't change"
    return "the state was written before layouts were recorded: start the app once with the old definition"


def _map_fields(
    found: StateMapping, layout: Layout, compiled: Compiled, before: Mapping[str, str], now: Mapping[str, str]
) -> None:
    known = {one["of"]: one for one in layout["fields"]}
    for one in compiled.layout["fields"]:
        of = one["of"]
        if of.startswith(_FOLD):
            _map_fold(found, one, known, compiled.spec, before, now)
        else:
            _copy(found, one, known.get(of))


def _copy(found: StateMapping, one: Mapping[str, str], source: Mapping[str, str] | None) -> None:
    if source is None:
        found.fields.append(FieldSource(one["name"]))
        return
    if not widens(source["type"], one["type"]):
        found.problems.append(f"{one['name']}: {one['type']} can't hold the existing {source['type']}")
    elif source["type"] != one["type"]:
        found.effects.append(f"{one['name']}: {source['type']} becomes {one['type']}")
    found.fields.append(FieldSource(one["name"], copied=source["name"]))


def _map_fold(
    found: StateMapping,
    one: Mapping[str, str],
    known: Mapping[str, Mapping[str, str]],
    spec: TableSpec,
    before: Mapping[str, str],
    now: Mapping[str, str],
) -> None:
    column, _, name = one["of"].removeprefix(_FOLD).rpartition(".")
    source = _old_fold(column, before, now)
    if source is None:
        found.fields.append(FieldSource(one["name"]))
        return
    fold = dict(spec.columns)[column]
    assert isinstance(fold, FoldSpec)
    if _state_of(before[f"column:{source}"]) != _state_of(now[f"column:{column}"]):
        if fold.migrate is None:
            problem = f"fold {column}: its state has other fields; compute them with migrate={{...}}"
            found.problems += [problem] if problem not in found.problems else []
        expression = dict(fold.migrate or ()).get(name)
        if expression is not None:
            old = {of.rpartition(".")[2]: f for of, f in known.items() if of.startswith(f"{_FOLD}{source}.")}
            fields = tuple(f["name"] for f in old.values())
            found.fields.append(FieldSource(one["name"], None, expression, tuple(old), fields))
            return
    _copy(found, one, known.get(f"{_FOLD}{source}.{name}"))


def _old_fold(column: str, before: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    """The previous definition of a fold: of the same name, or the same fold under a former name."""
    if before.get(f"column:{column}", "").startswith(_FOLD):
        return column
    same = (
        part.removeprefix("column:")
        for part, text in before.items()
        if part.startswith("column:")
        and part not in now
        and _state_of(text) == _state_of(now[f"column:{column}"])
    )
    return next(same, None)


def _state_of(fold: str) -> str:
    """The part of a fold's meaning that its state depends on: all but the result."""
    return fold.rpartition(" result(")[0]


def _map_columns(
    found: StateMapping, compiled: Compiled, before: Mapping[str, str], now: Mapping[str, str]
) -> None:
    """Records what happens to each column."""
    empty = {one.field for one in found.fields if one.copied is None and one.expression is None}
    for name, fields in compiled.layout["columns"].items():
        text, old = now[f"column:{name}"], before.get(f"column:{name}")
        source = next((part for part, was in before.items() if was == text and part not in now), None)
        if empty.issuperset(fields):
            found.added.append(name)
            gone = "" if old is None else "; its old values are dropped"
            found.effects.append(f"{name}: starts empty{gone}")
        elif not empty.isdisjoint(fields) and not text.startswith(_FOLD):
            found.problems.append(f"{name}: {_mixture(compiled.layout, fields, empty)}")
        elif text == old:
            continue
        elif old is None and source is not None:
            found.renames[name] = source.removeprefix("column:")
            found.effects.append(f"{name}: renamed from {source.removeprefix('column:')}")
        else:
            found.effects.append(f"{name}: computed from the existing state")
        if old is not None:
            found.redefined.append(name)
    dropped = [
        part.removeprefix("column:") for part in before if part.startswith("column:") and part not in now
    ]
    found.effects += [f"{name}: dropped" for name in dropped if name not in found.renames.values()]
    if not found.effects and before.get("columns") != now.get("columns"):
        found.effects.append("columns: reordered")


def _mixture(layout: Layout, fields: Sequence[str], empty: set[str]) -> str:
    """Why a column is impossible: parts of it would start empty, while others continue."""
    of = {one["name"]: one["of"].rpartition(" ")[0] for one in layout["fields"]}
    begins = " and ".join(dict.fromkeys(of[name] for name in fields if name in empty))
    goes_on = " and ".join(dict.fromkeys(of[name] for name in fields if name not in empty))
    return f"{begins} would start empty and {goes_on} would continue: the result would mix old and new rows"


def _map_keys(
    found: StateMapping, layout: Layout, compiled: Compiled, before: Mapping[str, str], now: Mapping[str, str]
) -> None:
    old = {one["name"]: one["type"] for one in layout["keys"]}
    used = set()
    for one in compiled.layout["keys"]:
        name, text = one["name"], now[f"key:{one['name']}"]
        same = [key for key in old if before.get(f"key:{key}") == text]
        source = name if name in same else next(iter(same), None)
        if source is not None:
            used.add(source)
            found.keys.append(KeySource(name, one["type"], copied=source))
            if not widens(old[source], one["type"]):
                found.problems.append(f"key {name}: {one['type']} can't hold {old[source]}")
            elif source != name:
                found.renames[name] = source
                found.effects.append(f"key {name}: renamed from {source}")
        elif _reads_unchanged(text, before, old):
            found.keys.append(KeySource(name, one["type"], expression=dict(compiled.spec.keys)[name]))
            found.effects.append(f"key {name}: computed from the old key")
        else:
            found.problems.append(f"key {name}: rows that were folded without it have no value for it")
    found.dropped_keys = [key for key in old if key not in used]
    if found.dropped_keys:
        _merge_keys(found, compiled)


def _reads_unchanged(text: str, before: Mapping[str, str], old: Mapping[str, str]) -> bool:
    """Whether an expression reads only columns that the old key has unchanged."""
    plain = {key for key in old if before.get(f"key:{key}") == f"`{key}`"}
    read = set(re.findall(r"`([^`]+)`", text))
    return bool(read) and read <= plain


def _merge_keys(found: StateMapping, compiled: Compiled) -> None:
    keys, layout = ", ".join(found.dropped_keys), compiled.layout
    if not layout["merges"]:
        found.problems.append(
            f"key {keys}: the states of keys that become equal can't be merged: a fold needs merge="
        )
    elif layout["kind"] == "sessions" or compiled.spec.keep_ms is not None:
        found.problems.append(f"key {keys}: sessions and kept windows of several keys can't be merged")
    else:
        found.effects.append(f"key {keys}: dropped; keys that become equal are merged")
        ordered = [one["of"] for one in layout["fields"] if one["of"].startswith(_ORDERED)]
        if ordered:
            found.effects.append("values that depend on order are merged in no particular order")


def widens(old: str, new: str) -> bool:
    """Whether a type holds all values of another; in the kernel `Widening`, equal by a test.

    >>> widens("INT", "BIGINT"), widens("DOUBLE", "FLOAT"), widens("DECIMAL(10,2)", "DECIMAL(12,2)")
    (True, False, True)
    """
    if old == new or (old, new) == ("FLOAT", "DOUBLE"):
        return True
    wanted = re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", new)
    given = re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", old)
    if wanted is not None:
        digits, scale = int(wanted[1]) - int(wanted[2]), int(wanted[2])
        if given is not None:
            return digits >= int(given[1]) - int(given[2]) and scale >= int(given[2])
        return old in _INTEGERS and digits >= _INTEGERS[old]
    if old in _INTEGERS and new in _INTEGERS:
        return _INTEGERS[old] < _INTEGERS[new]
    return (old in ("TINYINT", "SMALLINT") and new in ("FLOAT", "DOUBLE")) or (old, new) == ("INT", "DOUBLE")
