"""Which tables have to be rebuilt together: those that read each other, directly or through others."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.recovery.definition_changes import readers_of
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.stored_app import StoredApp
from keyfold.plan import tree
from keyfold.plan.nodes import AppSpec, TableSpec


def groups(tables: Sequence[Compiled]) -> list[list[Compiled]]:
    """The tables by groups that read each other; within a group in the order that they are given in."""
    found: list[set[str]] = []
    for table in tables:
        mine = {table.spec.name, *read_tables(table.spec)}
        apart = [group for group in found if not group & mine]
        found = [*apart, mine.union(*(group for group in found if group & mine))]
    return [[table for table in tables if table.spec.name in group] for group in found]


def with_readers(spec: AppSpec, stored: StoredApp, home: AppHome, names: Sequence[str]) -> list[str]:
    """Tables, those that have read them, those that have read these, and so on; declared ones alone."""
    declared, found, waiting = {table.name for table in spec.tables}, list(names), deque(names)
    while waiting:
        read = readers(spec, stored, home, waiting.popleft())
        new = [reader for reader in read if reader in declared and reader not in found]
        found += new
        waiting += new
    return found


def readers(spec: AppSpec, stored: StoredApp, home: AppHome, table: str) -> list[str]:
    """The tables whose state has rows of a table, also those that the app no longer declares."""
    names = readers_of(spec, stored, table).names
    return [name for name in names if home.table(name).planned_batch() is not None]


def read_tables(table: TableSpec) -> list[str]:
    """The tables that a table reads."""
    return list(dict.fromkeys(node.table for node in tree.reads(table.input)))
