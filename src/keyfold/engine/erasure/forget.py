"""Erases a key of a table from everything in its app's home, and reports what was erased where."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from keyfold.engine.erasure import receipts
from keyfold.engine.erasure.erased import Erased
from keyfold.engine.erasure.savepoint_erasure import SavepointErasure
from keyfold.engine.erasure.source_columns import others_with_the_key, source_columns
from keyfold.engine.erasure.staging import ErasureStaging
from keyfold.engine.operations import unfinished
from keyfold.engine.operations.kinds import FORGET
from keyfold.engine.savepoint.savepoints import Savepoints
from keyfold.engine.state.join_keys import SIDES, JoinedKey, joined_key
from keyfold.engine.state.join_rows import JoinRows, are_by_time
from keyfold.engine.state.state_of import StateOf
from keyfold.engine.state_reading import state_of
from keyfold.engine.storage import audit, contents
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.surgery.key_erasure import key_of
from keyfold.errors import BadOption
from keyfold.fault_points import FaultPoint, reached

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Tell = Callable[[str], None]

Confirm = Callable[[int], None]
"""Receives the number of keys that begin with the given values; raises if they should stay."""


def forget(
    spark: SparkSession,
    home: AppHome,
    table: str,
    values: Sequence[str],
    why: str | None,
    tell: Tell,
    confirm: Confirm | None = None,
) -> dict[str, Any]:
    """Erases a key from state, view, log, side outputs, recorded streams and savepoints; returns the receipt.

    The app must be stopped. Tables that read this one are notified, and correct themselves at the next start.
    With `confirm`, the values may be those of the first columns, for all keys that start with them.
    """
    with unfinished.held(home):
        key = key_of(home, table, values, some=confirm is not None)
        source = source_columns(home, table, key)
        joined = joined_key(home, table, key.columns)
        if home.table(table).committed_batch() is not None:
            require_searchable(spark, state_of(home, table), joined)
        readers = contents.readers(home, table)
        work = ErasureStaging(spark, home, table, key, source, joined, [])
        with FORGET.preparing(home, f"the key can't be erased from {home.path.name}.{table}"):
            tell("erasing the key from state, view and logs, beside the old files")
            table_home = work.erase(home, "", home.views)
            saved: dict[str, Erased] = {}
            for name in Savepoints(home).names():
                if (found := SavepointErasure(work).erase(name)) is not None:
                    tell(f"the key is erased from a copy of savepoint {name}")
                    saved[name] = found
            if not any(one.anything for one in (table_home, *saved.values())):
                raise BadOption(
                    f"nothing of {home.path.name}.{table} has this key; nothing was changed",
                    given=", ".join(values),
                    hint=f"keyfold state read {home.path.name}.{table} shows what its state has",
                )
            count = 1 if key.is_whole else len(table_home.keys.union(*(one.keys for one in saved.values())))
            if confirm is not None and not key.is_whole:
                confirm(count)
        receipt, entry = _receipt(work, table_home, saved, readers, count, why)
        intent = {"table": table, "key": key.columns, "batch": table_home.batch, "deleted": work.deleted}
        reached(FaultPoint.FORGET_STAGED)
        document = {**intent, "receipt": receipt, "entry": entry}
        FORGET.commit(home, document)
        reached(FaultPoint.FORGET_RECORDED)
        FORGET.finish(home)
        return receipt


def require_searchable(spark: SparkSession, state: StateOf, joined: JoinedKey | None) -> None:
    """Refuses a table that joins two streams if the rows that the join keeps can't be searched."""
    for operator in {part.operator for part in state.parts(spark) if part.kind == "join"}:
        columns = JoinRows(spark, state.uri, state.batch, operator).columns()
        if not are_by_time(state.checkpoint):
            why = "its state has an older format than 4"
        elif joined is None:
            why = "the key is not a column of the join, or there are several joins"
        elif all(joined.on_side(side, columns) is None for side in SIDES):
            why = "no side of the join has a column that is the key"
        else:
            continue
        raise BadOption(
            f"{state.table} joins two streams, and the key can't be erased from the rows that the join "
            f"keeps: {why}; nothing was changed",
            given=state.table,
            hint="keyfold reset TABLE, after which it starts from the first row",
        )


def _receipt(
    work: ErasureStaging,
    home: Erased,
    saved: Mapping[str, Erased],
    readers: list[str],
    count: int,
    why: str | None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The receipt, and the entry for the audit log; neither reveals the key."""
    app_home = work.home
    key = receipts.of_key(app_home.storage, work.key.names, work.key.values)
    entry = audit.entry("forget", why, tables=[work.table], key=key, keys=count)
    notes = ["sources outside the home, such as topics and files, are not erased"]
    if others := others_with_the_key(app_home, work.table):
        notes.append(
            f"other tables with a key of the same column may have it too: {', '.join(others)}; "
            "forget it there as well"
        )
    if work.is_followed(app_home):
        notes.append(
            f"the deletion itself, with the key, is in batch {home.batch} of the log for those who "
            "follow it; forget again when they have read it"
        )
    words = sum(one.by_word for one in (home, *saved.values()))
    if words:
        notes.append(
            f"{words} rejected or late rows whose columns can't be told apart were erased because they have "
            "the key as a word; some may be of other keys"
        )
    named = work.key.columns.items()
    keys = [one["key"] for one in audit.entries(app_home.storage) if isinstance(one.get("key"), dict)]
    lines = sum(named <= one.items() for one in keys)
    if lines:
        notes.append(f"{lines} lines of the audit log name the key, from state put or state delete")
    receipt = {
        "id": entry["id"],
        "at": entry["at"],
        "user": entry["user"],
        "why": why,
        "app": app_home.path.name,
        "table": work.table,
        "key": key,
        "columns": list(work.key.names),
        "keys": count,
        "home": home.document(),
        "savepoints": {name: one.document() for name, one in saved.items()},
        "corrected_at_next_start": readers,
        "notes": notes,
    }
    signed = receipts.sign(app_home.storage, receipt)
    return signed, {**entry, "receipt": receipts.digest(signed)}
