"""What is left of an app's status, graph, savepoints and side outputs for a token."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from keyfold.errors import QueryError
from keyfold.read.explain.explanation import BatchInput, Explanation
from keyfold.read.history import Change
from keyfold.read.names import Names
from keyfold.read.rejections import Rejections
from keyfold.read.side_rows import DuplicateRow, LateRow, RejectedRow
from keyfold.read.status import AppStatus
from keyfold.read.topology import Topology
from keyfold.server.auth.access import Access
from keyfold.server.granted.reasons import UNSAID, said

_UNSAID_ROWS: Final = "rows of sources are for operators"
Hidden = Callable[[str], frozenset[str]] | None


def status(found: AppStatus, access: Access, names: Names, graph: Topology, hidden: Hidden) -> AppStatus:
    """A status of the tables in scope, and of the streams and lookups that these read."""
    streams = {one.lower() for one in names.streams}
    lookups = {node.name for node in graph.nodes if node.kind == "lookup"}
    tables = {name: one for name, one in found.tables.items() if access.reads(found.app, name)}
    mine: dict[str, Any] = {
        "tables": tables,
        "streams": {name: one for name, one in found.streams.items() if name.lower() in streams},
        "lookups": {name: one for name, one in found.lookups.items() if name in lookups},
        "batch_limits": {name: one for name, one in found.batch_limits.items() if name.lower() in streams},
        "failures": [one for one in found.failures if one.table is None or one.table in tables],
    }
    if access.tables is not None:
        # Texts that are of no table may be about those out of scope.
        mine["failures"] = [one if one.table else one.replace(text=UNSAID) for one in mine["failures"]]
        mine["problem"] = found.problem and UNSAID
    if access.sees_private:
        return found.replace(**mine)
    return found.replace(
        **{
            **mine,
            "tables": {name: _without_texts(one, _known(hidden, name)) for name, one in tables.items()},
            "streams": {name: _without_texts(one) for name, one in mine["streams"].items()},
            "lookups": {
                name: one.replace(error=one.error and UNSAID) for name, one in mine["lookups"].items()
            },
            "failures": [one.replace(text=UNSAID) for one in mine["failures"]],
            "problem": found.problem and UNSAID,
        }
    )


def _known(hidden: Hidden, table: str) -> frozenset[str] | None:
    try:
        return None if hidden is None else hidden(table)
    except QueryError:
        # It has no view yet.
        return None


def _without_texts(one: Any, hidden: frozenset[str] | None = None) -> Any:
    """A table's or stream's status without what quotes rows, and without what is known of hidden columns.

    `hidden`: None if these are not known.
    """
    found: dict[str, Any] = {}
    if one.rejecting is not None:
        found["rejecting"] = one.rejecting.replace(reason=said(one.rejecting.reason))
    if since := getattr(one, "since", None):
        found["since"] = {name: at for name, at in since.items() if hidden is not None and name not in hidden}
    return one.replace(**found) if found else one


def topology(found: Topology, access: Access) -> Topology:
    """The tables in scope, with what they read and write."""
    if access.tables is None:
        return found
    tables = {node.id for node in found.nodes if node.kind == "table" and access.reads(found.app, node.name)}
    beside = {one.source for one in found.edges if one.target in tables}
    beside |= {one.target for one in found.edges if one.source in tables}
    nodes = [one for one in found.nodes if one.id in tables or (one.id in beside and one.kind != "table")]
    ids = {one.id for one in nodes}
    edges = [one for one in found.edges if one.source in ids and one.target in ids]
    return replace(found, nodes=nodes, edges=edges)


def savepoints(found: list[Any], access: Access) -> list[Any]:
    """The savepoints that have tables in scope, with these alone."""
    if access.tables is None:
        return found
    kept = []
    for one in found:
        tables = {name: saved for name, saved in one.tables.items() if access.reads(one.app, name)}
        if tables:
            files = tuple(file for table in tables for file in one.of_table(table))
            kept.append(replace(one, tables=tables, files=files, view=None))
    return kept


def change(found: Change, shown: frozenset[str] | None) -> Change:
    """A change with the columns that are shown; None: all."""
    if shown is None:
        return found
    return replace(found, row={name: value for name, value in found.row.items() if name in shown})


def explanation(found: Explanation, app: str, access: Access, shown: frozenset[str] | None) -> Explanation:
    """An explanation by sources in scope; for a reader without rows of sources, which are raw rows."""
    inputs = [
        _input(one, access) for one in found.inputs if one.kind != "table" or access.reads(app, one.name)
    ]
    before = None if found.before is None else change(found.before, shown)
    return replace(found, change=change(found.change, shown), before=before, inputs=inputs)


def _input(found: BatchInput, access: Access) -> BatchInput:
    # Steps may name tables that are out of scope.
    steps = found.steps if access.tables is None else ()
    if access.sees_private:
        return replace(found, steps=steps)
    return replace(found, steps=(), files=(), rows=None, more=False, missing=_UNSAID_ROWS)


def rejections(found: Rejections, access: Access) -> Rejections:
    """Rejected rows; for a reader without raw text, and with reasons that quote nothing."""
    # Streams are read by tables that are out of scope.
    streams = found.streams if access.tables is None else []
    if access.sees_private:
        return replace(found, streams=streams)
    counted: Counter[str] = Counter()
    for reason, rows in found.not_kept.items():
        counted[said(reason)] += rows
    return Rejections([_without_raw(row) for row in found.rows], counted, streams)


def _without_raw(row: RejectedRow) -> RejectedRow:
    return replace(row, raw=None, cause=None, reason=said(row.reason))


def late(row: LateRow, access: Access) -> LateRow:
    """A late row; for a reader without raw text."""
    if access.sees_private:
        return row
    return replace(row, raw=None, reason=said(row.reason))


def duplicate(row: DuplicateRow, access: Access) -> DuplicateRow:
    """A duplicate; for a reader without raw text."""
    return row if access.sees_private else replace(row, raw=None)
