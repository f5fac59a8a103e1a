"""What a changed definition means for the state on disk: whether it fits, can be migrated, or is lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.recovery import definition
from keyfold.engine.state.mapping import StateMapping, mapped
from keyfold.plan import nodes, tree
from keyfold.plan.nodes import AppSpec

Kind = Literal["new", "same", "compatible", "migratable", "incompatible", "removed"]
_OF_STATE: Final = ("column:", "key:", "reads:")


@dataclass(frozen=True)
class Readers:
    """The tables that read another one."""

    names: tuple[str, ...] = ()
    enriching: tuple[str, ...] = ()
    """Those of them that keep its rows in their own state."""


@dataclass(frozen=True)
class TableChange:
    """How a table differs from what the last start recorded, and what that means."""

    table: str
    kind: Kind
    effects: tuple[str, ...] = ()
    """What takes effect, is migrated, or stands in the way."""
    mapping: StateMapping | None = None
    was: str | None = None
    rebuilt: str | None = None
    """Since when its streams have recorded rows, if it is to be rebuilt from them."""
    recorded: str | None = None
    """The same, if it is not, but a rebuild could fill its new columns from them."""
    sources: frozenset[str] = frozenset()
    """The streams that a rebuild reads from their sources; the others are read from their logs."""
    whole: bool = False
    """Whether a rebuild has, or would have, every row of the past."""


def readers_of(spec: AppSpec, stored: Mapping[str, Any], table: str) -> Readers:
    """The tables that read a table, in the app as it is declared or in what is on disk."""
    uses = [(one.name, node) for one in spec.tables for node in tree.reads(one.input) if node.table == table]
    recorded = stored.get("tables") or {}
    names = [name for name, _ in uses] + [
        n for n, entry in recorded.items() if table in entry.get("tables", ())
    ]
    enriching = [name for name, node in uses if isinstance(node, nodes.Enrich)]
    return Readers(tuple(dict.fromkeys(names)), tuple(enriching))


def removed_tables(
    spec: AppSpec, stored: Mapping[str, Any], changes: Sequence[TableChange]
) -> list[TableChange]:
    """The tables that have state and are no longer declared."""
    declared = {table.name for table in spec.tables} | {change.was for change in changes}
    known = stored.get("tables") or {}
    effect = ("no longer declared; its state stays",)
    return [TableChange(name, "removed", effect) for name in known if name not in declared]


def compared(
    old: Mapping[str, Any], meaning: Mapping[str, str], compiled: Compiled, readers: Readers, operators: int
) -> TableChange:
    """Compares a stored definition of a table with the compiled one, of which it is the meaning.

    `operators`: how many stateful operators the table's query has.
    """
    before: Mapping[str, str] = old["meaning"]
    changed = definition.changed(before, meaning)
    name = compiled.spec.name
    effects, problems, rewrites = [], [], False
    for part in changed:
        lost = _other_input(part, before, meaning)
        if part in ("ttl", "keep"):
            both = part in before and part in meaning
            rewrites |= part == "keep" or not both
            effects.append(_length_effect(part, both, part in meaning))
        elif part == "emit" and _finals_of_sessions(meaning):
            problems.append("emit: open sessions would stay in the view, under bounds that they outgrow")
        elif part == "emit":
            effects.append("emit: open windows in the view stay as they are until they change or close")
        elif lost is not None:
            problems.append(lost)
    mapping = None
    if rewrites or any(part in ("columns", "keys") or part.startswith(_OF_STATE) for part in changed):
        mapping = mapped(old, meaning, compiled)
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
    """What state of the query beside the table's own stands in the way.

    That of a join stays as it is: it has whole rows, whatever the table folds of them.
    """
    return [] if operators == 1 + joins else ["its query keeps other state too, of a dedup or an enrichment"]


def _joins(compiled: Compiled) -> int:
    """How many joins of two streams feed a table."""
    return sum(isinstance(node, nodes.Join) for node in tree.walk(compiled.spec.input))


def ending_history(found: TableChange, compiled: Compiled, batch: int | None) -> TableChange:
    """The same with what becomes of the changes that the table keeps; `batch` is the last one."""
    if found.kind != "migratable" or compiled.spec.history_ms is None:
        return found
    anew = "begins anew" if found.rebuilt is None else "begins anew with the rebuilt rows"
    effect = f"history: {anew}; changes up to batch {batch} have the old definition, and go"
    return replace(found, effects=(*found.effects, effect))


def renamed(found: TableChange, was: str, readers: Readers) -> TableChange:
    """The same for a table that had another name."""
    if readers.names:
        known = f"was: {', '.join(readers.names)} read it by the name of {was}"
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
        return "keep: closed windows are kept for the new time" if now else "keep: kept windows are let go"
    if both:
        return (
            "ttl: a key that is there expires after the new one, or when the old one is over if that is later"
        )
    if now:
        return "ttl: keys that are there count as seen when the app next runs"
    return "ttl: keys no longer expire"


def _other_input(part: str, before: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    """Why a change of what is folded can't be made up for; None if the part is no such thing."""
    if part in ("ttl", "keep", "emit", "columns", "keys") or part.startswith(_OF_STATE):
        return None
    if part.startswith("time:") and (part not in before or part not in now):
        # Only what measures time, or orders rows by it, depends on it: a TTL or a fold was added or dropped.
        return None
    from_, to = before.get(part) or "nothing", now.get(part) or "nothing"
    return (
        f"{part.replace(':', ' ')}: {from_} on disk, {to} now: it can't change under the state that is there"
    )


def _for_readers(readers: Readers, changed: Sequence[str], mapping: StateMapping | None) -> list[str]:
    """What tables that read this one, and have folded its rows, stand in the way of."""
    if not readers.names:
        return []
    names = ", ".join(readers.names)
    found = [f"{part}: {names} have read its rows" for part in ("emit", "keep") if part in changed]
    if mapping is None:
        return found
    if readers.enriching:
        found.append(f"{', '.join(readers.enriching)} keep its rows, with their columns, in their own state")
    if mapping.redefined:
        found.append(f"{', '.join(mapping.redefined)}: {names} have folded the values that there were")
    if any("key" in part.partition(":")[0] for part in changed):
        found.append(f"key: {names} know its rows by their keys")
    return found
