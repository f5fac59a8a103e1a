"""Erases a key of a table from all that its app has in the home, and says what was erased where."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from keyfold.engine.recovery import table_removal
from keyfold.engine.savepoint import forgetting, leftovers, receipts, unfinished
from keyfold.engine.savepoint.erasure_staging import Erased, ErasureStaging
from keyfold.engine.savepoint.failure import failed
from keyfold.engine.savepoint.key_erasure import key_of, require_no_join
from keyfold.engine.savepoint.savepoints import Savepoints
from keyfold.engine.savepoint.state_reading import state_of
from keyfold.engine.storage import audit
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import BadOption, KeyfoldError
from keyfold.fault_points import FaultPoint, reached

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Tell = Callable[[str], None]


def forget(
    spark: SparkSession, place: AppHome, table: str, values: Sequence[str], why: str | None, tell: Tell
) -> dict[str, Any]:
    """Erases a key from state, view, log, side outputs, recorded streams and savepoints; returns the receipt.

    The app must be stopped. Tables that read this one are told, and correct themselves at the next start.
    """
    with unfinished.held(place):
        key, source = key_of(place, table, values), source_columns(place, table, values)
        if place.table(table).committed() is not None:
            state = state_of(place, table)
            require_no_join(state.table, state.parts(spark))
        readers = table_removal.readers(place, table)
        told = bool(readers or place.storage.list(f"tables/{table}/sinks"))
        work = ErasureStaging(spark, place, table, key, source, told, [])
        try:
            tell("erasing the key from state, view and logs, beside the old files")
            erased = {"home": work.erase(place, "", place.views)}
            for name in Savepoints(place).names():
                if table in Savepoints(place).find(name).tables:
                    tell(f"erasing the key from savepoint {name}")
                    erased[name] = work.erase_savepoint(name)
            if not any(one.anything for one in erased.values()):
                raise BadOption(
                    f"nothing of {place.path.name}.{table} has this key; nothing was changed",
                    given=", ".join(values),
                    hint=f"keyfold state read {place.path.name}.{table} shows what its state has",
                )
        except BaseException as error:
            leftovers.discard(place, forgetting.STAGE)
            if isinstance(error, Exception) and not isinstance(error, KeyfoldError):
                raise failed(f"the key can't be erased from {place.path.name}.{table}", error) from error
            raise
        receipt, entry = _receipt(work, erased, readers, why)
        batch = erased["home"].batch
        intent = {"table": table, "values": list(values), "batch": batch, "deleted": work.deleted}
        reached(FaultPoint.FORGET_STAGED)
        document = {**intent, "receipt": receipt, "entry": entry}
        place.storage.put(forgetting.INTENT, json.dumps(document, ensure_ascii=False).encode())
        reached(FaultPoint.FORGET_RECORDED)
        forgetting.finish(place)
        return receipt


def source_columns(place: AppHome, table: str, values: Sequence[str]) -> dict[str, str] | None:
    """The values by the columns of the streams that the key is; None if an expression computes it."""
    declared = ((place.read_plan() or {}).get("declared") or {}).get("tables", ())
    key: dict[str, str] = next((one["key"] for one in declared if one["name"] == table), {})
    columns = [str(expression).strip("`") for expression in key.values()]
    if not all(column.isidentifier() for column in columns):
        return None
    return dict(zip(columns, values, strict=False))


def others_with_the_key(place: AppHome, table: str) -> list[str]:
    """Other tables of the app that are keyed by one of the same expressions, and may have the same person."""
    declared = ((place.read_plan() or {}).get("declared") or {}).get("tables", ())
    keys = {one["name"]: {str(each).strip("`") for each in one["key"].values()} for one in declared}
    mine = keys.pop(table, set())
    return sorted(name for name, key in keys.items() if key & mine)


def _receipt(
    work: ErasureStaging, erased: Mapping[str, Erased], readers: list[str], why: str | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The receipt, and the entry for the audit log; neither says what the key was."""
    place = work.place
    key = receipts.of_key(place.storage, work.key.names, work.key.values)
    entry = audit.entry("forget", why, tables=[work.table], key=key)
    notes = ["sources outside the home, such as topics and files, are not erased"]
    if others := others_with_the_key(place, work.table):
        notes.append(
            f"other tables with a key of the same column may have it too: {', '.join(others)}; "
            "forget it there as well"
        )
    if work.told:
        notes.append(
            f"the deletion itself, with the key, is in batch {erased['home'].batch} of the log for those who "
            "follow it; forget again when they have read it"
        )
    words = sum(one.by_word for one in erased.values())
    if words:
        notes.append(
            f"{words} rejected or late rows without columns, such as lines of CSV, were erased because they "
            "have the key as a word; some may be of other keys"
        )
    named = dict(zip(work.key.names, work.key.values, strict=True))
    lines = sum(one.get("key") == named for one in audit.entries(place.storage))
    if lines:
        notes.append(f"{lines} lines of the audit log name the key, from state put or state delete")
    receipt = {
        "id": entry["id"],
        "at": entry["at"],
        "user": entry["user"],
        "why": why,
        "app": place.path.name,
        "table": work.table,
        "key": key,
        "home": erased["home"].document(),
        "savepoints": {name: one.document() for name, one in erased.items() if name != "home"},
        "corrected_at_next_start": readers,
        "notes": notes,
    }
    signed = receipts.signed(place.storage, receipt)
    return signed, {**entry, "receipt": receipts.digest(signed)}
