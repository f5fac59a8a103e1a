"""What a changed definition means for the state on disk: whether it fits, can be migrated, or neither."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.recovery import definition
from keyfold.engine.state.mapping import StateMapping, map_state
from keyfold.engine.storage.stored_app import StoredApp, StoredTable
from keyfold.plan import nodes, tree
from keyfold.plan.nodes import AppSpec

Kind = Literal["new", "same", "compatible", "migratable", "incompatible", "removed"]
_OF_STATE: Final = ("column:", "key:", "reads:")


@dataclass(frozen=True)
class Readers:
    """The tables that read another one."""

    names: tuple[str, ...] = ()
    enriching: tuple[str, ...] = ()
    """The readers that keep its rows in their own state."""


@dataclass(frozen=True)
class TableChange:
    """How a table differs from what the last start recorded, and what that means."""

    table: str
    kind: Kind
    effects: tuple[str, ...] = ()
    """What takes effect or is migrated, or what makes the change incompatible."""
    mapping: StateMapping | None = None
    was: str | None = None
    rebuilt: str | None = None
    """The time since which its streams have recorded rows, if it is to be rebuilt from them."""
    recorded: str | None = None
    """The same time, if it is not to be rebuilt, but a rebuild could fill its new columns, or follow a change
    that is incompatible with what others have read.
    """
    readers: tuple[str, ...] = ()
    """The tables that have read it, directly or through others, which such a rebuild rebuilds too."""
    sources: frozenset[str] = frozenset()
    """The streams that a rebuild reads from their sources; it reads the others from their logs."""
    whole: bool = False
    """Whether a rebuild has, or would have, every past row."""


def readers_of(spec: AppSpec, stored: StoredApp, table: str) -> Readers:
    """The tables that read a table, in the declared app or in the recorded one."""
    uses = [(one.name, node) for one in spec.tables for node in tree.reads(one.input) if node.table == table]
    names = [name for name, _ in uses]
    names += [name for name, entry in stored.tables.items() if table in entry.tables]
    enriching = [name for name, node in uses if isinstance(node, nodes.Enrich)]
    return Readers(tuple(dict.fromkeys(names)), tuple(enriching))


def removed_tables(spec: AppSpec, stored: StoredApp, changes: Sequence[TableChange]) -> list[TableChange]:
    """The tables with state that are no longer declared."""
    declared = {table.name for table in spec.tables} | {change.was for change in changes}
    effect = ("no longer declared; its state stays",)
    return [TableChange(name, "removed", effect) for name in stored.tables if name not in declared]


def compare(
    old: StoredTable, meaning: Mapping[str, str], compiled: Compiled, readers: Readers, operators: int
) -> TableChange:
    """Compares a stored definition of a table with the compiled one, whose meaning is given.

    `operators`: how many stateful operators the table's query has.
    """
    before = old.meaning
    changed = definition.changed_parts(before, meaning)
    name = compiled.spec.name
    effects, problems, rewrites = [], [], False
    for part in changed:
        lost = _other_input(part, before, meaning)
        if part in ("ttl", "keep"):
            both = part in before and part in meaning
            rewrites |= part == "keep" or not both
            effects.append(_length_effect(part, both, part in meaning))
        elif part == "emit" and _finals_of_sessions(meaning):
            problems.append("emit: open sessions would stay in the view under outdated bounds")
        elif part == "emit":
            effects.append("emit: rows of open windows stay in the view until the windows change or close")
        elif lost is not None:
            problems.append(lost)
    mapping = None
    if rewrites or any(part in ("columns", "keys") or part.startswith(_OF_STATE) for part in changed):
        mapping = map_state(old, meaning, compiled)
        effects += mapping.effects
        problems += mapping.problems
        rewrites |= bool(mapping.effects) or any(not part.startswith("reads:") for part in changed)
        if rewrites:
            problems += _beside(operators, _joins(compiled))
    problems += _for_readers(readers, changed, mapping if rewrites else None)
    if problems:
        return TableChange(name, "incompatible", tuple(problems))
    kind: Kind = "same" if not changed else "migratable" if rewrites else "compatible"
    return TableChange(name, kind, tuple(effects), mapping)


def _beside(operators: int, joins: int) -> list[str]:
    """The other state of the query, which prevents a migration.

    The state of a join does not: it has whole rows, and stays as it is whatever the table folds.
    """
    return [] if operators == 1 + joins else ["its query also keeps the state of a dedup or an enrichment"]


def _joins(compiled: Compiled) -> int:
    """How many joins of two streams feed a table."""
    return sum(isinstance(node, nodes.Join) for node in tree.walk(compiled.spec.input))


def ending_history(found: TableChange, compiled: Compiled, batch: int | None) -> TableChange:
    """The same change with its effect on the table's history; `batch` is the last one."""
    if found.kind != "migratable" or compiled.spec.history_ms is None:
        return found
    start = "starts over" if found.rebuilt is None else "starts over with the rebuilt rows"
    effect = f"history: {start}; changes up to batch {batch} belong to the old definition and are dropped"
    return replace(found, effects=(*found.effects, effect))


def rename(found: TableChange, was: str, readers: Readers) -> TableChange:
    """The same change for a renamed table."""
    if readers.names:
        known = f"was: still read as {was} by {', '.join(readers.names)}"
        return replace(found, kind="incompatible", effects=(*_if_refused(found), known), was=was)
    if found.kind == "incompatible":
        return replace(found, was=was)
    return replace(found, kind="migratable", effects=(f"renamed from {was}", *found.effects), was=was)


def _if_refused(found: TableChange) -> tuple[str, ...]:
    return found.effects if found.kind == "incompatible" else ()


def _finals_of_sessions(meaning: Mapping[str, str]) -> bool:
    return meaning.get("emit") == "final" and meaning.get("window", "").startswith("session")


def _length_effect(part: str, both: bool, now: bool) -> str:
    if part == "keep":
        return (
            "keep: closed windows are retained for the new time"
            if now
            else "keep: retained windows are dropped"
        )
    if both:
        return "ttl: an existing key expires after the new TTL, or after the old one if that is later"
    if now:
        return "ttl: existing keys count as seen when the app next runs"
    return "ttl: keys no longer expire"


def _other_input(part: str, before: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    """Why a change of the input is incompatible; None if the part is not about the input."""
    if part in ("ttl", "keep", "emit", "columns", "keys") or part.startswith(_OF_STATE):
        return None
    if part.startswith("time:") and (part not in before or part not in now):
        # Only what measures time, or orders rows by it, depends on it: a TTL or a fold was added or dropped.
        return None
    from_, to = before.get(part) or "nothing", now.get(part) or "nothing"
    return f"{part.replace(':', ' ')}: {from_} on disk, {to} now: incompatible with the existing state"


def _for_readers(readers: Readers, changed: Sequence[str], mapping: StateMapping | None) -> list[str]:
    """The changes that are incompatible with what the table's readers have folded."""
    if not readers.names:
        return []
    names = ", ".join(readers.names)
    found = [f"{part}: its rows have been read by {names}" for part in ("emit", "keep") if part in changed]
    if mapping is None:
        return found
    if readers.enriching:
        found.append(f"its rows, with their columns, are in the state of {', '.join(readers.enriching)}")
    if mapping.redefined:
        found.append(f"{', '.join(mapping.redefined)}: the old values have been folded by {names}")
    if any("key" in part.partition(":")[0] for part in changed):
        found.append(f"key: it identifies the rows that {names} have read")
    return found
