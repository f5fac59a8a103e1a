"""Does a definition fit the state on disk? What was started is written down and compared at the next."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NoReturn

from keyfold.engine.compile.table import Compiled
from keyfold.engine.sources import file_names
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import HomeUnusable, StateMismatch
from keyfold.plan import durations, nodes
from keyfold.plan.describe import phrases
from keyfold.plan.describe import text as describe
from keyfold.plan.nodes import AppSpec

FORMAT = 1


def plan_of(spec: AppSpec, compiled: Iterable[Compiled], partitions: dict[str, int]) -> dict[str, Any]:
    """What is written to app.json: the declaration as the user wrote it, and what it means to Spark."""
    tables = {c.spec.name: {**_table(c), "partitions": partitions[c.spec.name]} for c in compiled}
    return {"format": FORMAT, "app": spec.name, "declared": describe.to_dict(spec), "tables": tables}


def _table(compiled: Compiled) -> dict[str, Any]:
    meaning = meaning_of(compiled)
    return {
        "fingerprint": fingerprint(meaning),
        "meaning": meaning,
        "streams": [s.name for s in nodes.sources(compiled.spec.input)],
        "tables": list(dict.fromkeys(node.table for node in nodes.reads(compiled.spec.input))),
        "directories": file_names.directories(compiled),
        "state": json.loads(compiled.state_schema),
    }


def meaning_of(compiled: Compiled) -> dict[str, str]:
    """The parts that state depends on, each as text in which spelling does not show."""
    spec = compiled.spec
    # TTL, windows and patterns count time, and folds see rows by it; other tables don't look at it.
    timed = (
        spec.ttl_ms is not None
        or spec.window is not None
        or spec.pattern is not None
        or any(isinstance(c, nodes.FoldSpec) for _, c in spec.columns)
    )
    times = {f"time:{s.name}": f"{s.time or 'arrival'}" for s in nodes.sources(spec.input) if timed}
    ttl = {} if spec.ttl_ms is None else {"ttl": f"{spec.ttl_ms} ms"}
    read = {f"from:{number}": _reading(node) for number, node in enumerate(nodes.reads(spec.input))}
    # When a stream is idle may change; whether it can be may not, since it is one more thing to read.
    idle = {} if spec.idle_ms is None else {"idle": "yes"}
    return {**compiled.meaning, **ttl, **times, **read, **_window(spec), **idle}


def _reading(node: nodes.Changes | nodes.Enrich) -> str:
    """How another table is read."""
    if isinstance(node, nodes.Changes):
        return f"{node.table} changes" + (" with previous" if node.previous else "")
    spans = {"wait": node.wait_ms, "keep": node.keep_ms}
    parts = [f"{name} {durations.text(ms)}" for name, ms in spans.items() if ms is not None]
    followed = ["on update"] if node.on_update else []
    return ", ".join(
        [f"{node.table} on {' and '.join(node.on)}", node.how, f"as of {node.as_of}", *followed, *parts]
    )


def _window(spec: nodes.TableSpec) -> dict[str, str]:
    if spec.window is None:
        return {}
    # A gap that is an expression is in the kernel's part of the meaning.
    kind = phrases.window_words(replace(spec.window, gap=None if spec.window.gap is None else "by row"))
    # A view shows open windows or it doesn't: with another emit it would be half of each.
    found = {"window": kind, "emit": spec.emit}
    if spec.keep_ms is not None:
        # Timers are set for when kept windows go.
        found["keep"] = durations.text(spec.keep_ms)
    return found


def fingerprint(meaning: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(meaning, sort_keys=True).encode()).hexdigest()[:16]


def check(app: str, stored: dict[str, Any] | None, compiled: Compiled, place: AppHome) -> None:
    """Refuses a definition that the table's state was not written by, and state that is not whole."""
    tables: dict[str, Any] = (stored or {}).get("tables") or {}
    _refuse_other_case(app, compiled, tables)
    home, old = place.table(compiled.spec.name), tables.get(compiled.spec.name)
    if home.begun() is None:
        return
    if old is None:
        _refuse_unknown(app, compiled, place)
    _refuse_lost_logs(app, compiled, place)
    _refuse_changes(app, old, compiled, place)
    file_names.check(app, old.get("directories") or {}, compiled, home)


def _refuse_changes(app: str, old: dict[str, Any], compiled: Compiled, place: AppHome) -> None:
    changes = differences(old["meaning"], meaning_of(compiled))
    asked = compiled.spec.partitions
    if asked is not None and asked != old["partitions"]:
        changes.append(f"partitions: {old['partitions']} on disk, {asked} now (fixed at the first start)")
    if changes:
        raise StateMismatch(
            f"the state of {app}.{compiled.spec.name} was written by another definition; nothing was changed",
            where=compiled.spec.site,
            given="\n".join(changes),
            hint="go back to the old definition; or give the table a new name, which starts from the first "
            f"row; or {_reset(app, compiled)}; or use another home (--home DIR). Now keyfold "
            f"get, rows and rejected still read what is there ({place.path})",
        )


def _refuse_unknown(app: str, compiled: Compiled, place: AppHome) -> NoReturn:
    """State of which nobody knows what it means: any definition would be taken for the right one."""
    raise HomeUnusable(
        f"{app}.{compiled.spec.name} has state, but {place.plan} does not say which definition wrote it; "
        "nothing was changed",
        given=place.table(compiled.spec.name).checkpoint,
        hint=f"bring {place.plan.name} back as it was when the app last ran; or {_reset(app, compiled)}",
    )


def _refuse_lost_logs(app: str, compiled: Compiled, place: AppHome) -> None:
    """Refuses a checkpoint without its log of files: they would be read twice, or never."""
    lost = place.table(compiled.spec.name).lost_logs(file_names.numbers(compiled))
    if lost:
        raise HomeUnusable(
            f"{app}.{compiled.spec.name} can't go on: files that say what it has read are gone; "
            "nothing was changed",
            given=", ".join(map(str, lost)),
            hint=f"bring them back; or {_reset(app, compiled)}",
        )


def _reset(app: str, compiled: Compiled) -> str:
    return f"`keyfold reset {app}.{compiled.spec.name}`, after which it starts from the first row"


def _refuse_other_case(app: str, compiled: Compiled, tables: dict[str, Any]) -> None:
    """A name that differs in case alone would be another state and the same view."""
    name = compiled.spec.name
    for known in tables:
        if known.lower() == name.lower() and known != name:
            raise StateMismatch(
                f"{app}.{name} differs from the table {known} on disk in upper and lower case alone",
                where=compiled.spec.site,
                given=name,
                hint=f"{known}, or another name",
            )


def differences(old: dict[str, str], new: dict[str, str]) -> list[str]:
    """What differs, a line each."""
    lines = []
    for part in dict.fromkeys((*old, *new)):
        before, after = old.get(part), new.get(part)
        if before != after:
            lines.append(f"{part.replace(':', ' ')}: {_shown(before)} on disk, {_shown(after)} now")
    return lines


def _shown(text: str | None) -> str:
    """A part of the meaning for people; what is stored as milliseconds is a length of time to them."""
    length = re.fullmatch(r"(\d+) ms", text or "")
    return durations.text(int(length[1])) if length else text or "nothing"
