"""Whether a definition fits the state on disk: each start records its definition, and the next compares."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, NoReturn

from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.compile.stream import CompiledStream
from keyfold.engine.log.manifest import LAYOUT, other_layout
from keyfold.engine.log.retention import totals
from keyfold.engine.log.shared_streams import SharedStreams
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.recovery.definition_changes import TableChange, compared, readers_of, renamed
from keyfold.engine.sources import file_names
from keyfold.engine.storage.layout import AppHome, TableHome
from keyfold.errors import HomeUnusable, StateMismatch
from keyfold.kernel.build import spark_version
from keyfold.plan import durations, nodes, tree
from keyfold.plan.describe import phrases
from keyfold.plan.describe import text as describe

_MIGRATE: Final = "keyfold plan APP.py shows what keyfold migrate APP.py would do"


def plan_of(
    shared: SharedStreams,
    compiled: Iterable[Compiled],
    partitions: dict[str, int],
    streams: Mapping[str, CompiledStream],
) -> dict[str, Any]:
    """The content of app.json: the declaration as the user wrote it, and what it means to Spark."""
    spec = shared.spec
    tables = {
        c.spec.name: {**entry_of(c), "shared": shared.of(c.spec), "partitions": partitions[c.spec.name]}
        for c in compiled
    }
    return {
        "layout": LAYOUT,
        "spark": spark_version(),
        "app": spec.name,
        "declared": describe.to_dict(spec),
        "streams": {s.name: _stream(s.name in shared.chosen, streams.get(s.name)) for s in spec.streams},
        "tables": tables,
    }


def entry_of(compiled: Compiled) -> dict[str, Any]:
    """What is recorded of a table, as far as its own definition tells."""
    meaning = meaning_of(compiled)
    return {
        "fingerprint": fingerprint(meaning),
        "meaning": meaning,
        "streams": [s.name for s in tree.sources(compiled.spec.input)],
        "tables": list(dict.fromkeys(node.table for node in tree.reads(compiled.spec.input))),
        "directories": compiled.files.directories(),
        "state": json.loads(compiled.state_schema),
        "layout": dict(compiled.layout),
    }


def _stream(shared: bool, compiled: CompiledStream | None) -> dict[str, Any]:
    """Whether a stream is shared and, if its log is written, what it has."""
    if compiled is None:
        return {"shared": shared}
    return {
        "shared": shared,
        "history": compiled.spec.history_ms,
        "columns": compiled.columns,
        "directories": compiled.files.directories(),
    }


def meaning_of(compiled: Compiled) -> dict[str, str]:
    """The parts that state depends on, each as text that does not depend on spelling."""
    spec = compiled.spec
    # TTL, windows and patterns measure event time and folds order rows by it; other tables ignore it.
    timed = (
        spec.ttl_ms is not None
        or spec.window is not None
        or spec.pattern is not None
        or any(isinstance(c, nodes.FoldSpec) for _, c in spec.columns)
    )
    times = {f"time:{s.name}": f"{s.time or 'arrival'}" for s in tree.sources(spec.input) if timed}
    ttl = {} if spec.ttl_ms is None else {"ttl": f"{spec.ttl_ms} ms"}
    read = {f"from:{number}": _reading(node) for number, node in enumerate(tree.reads(spec.input))}
    # The length of `idle` may change; whether there is one may not, since it adds a source.
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
    found = {"window": kind, "emit": spec.emit}
    if spec.keep_ms is not None:
        # Timers are set for when kept windows expire.
        found["keep"] = durations.text(spec.keep_ms)
    return found


def fingerprint(meaning: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(meaning, sort_keys=True).encode()).hexdigest()[:16]


def change_of(
    spec: nodes.AppSpec, stored: Mapping[str, Any], compiled: Compiled, place: AppHome
) -> TableChange:
    """How a table differs from what the last start recorded of it, under its name or the one that it had."""
    tables: dict[str, Any] = stored.get("tables") or {}
    name, was = compiled.spec.name, None
    if place.table(name).begun() is None:
        was = compiled.spec.was
        if was is None or was not in tables or place.table(was).begun() is None:
            return TableChange(name, "new")
    old = tables.get(was or name)
    if old is None:
        return TableChange(
            name, "incompatible", ("app.json does not record which definition wrote its state",)
        )
    if was in {table.name for table in spec.tables}:
        return TableChange(
            name, "incompatible", (f"was: {was} is declared too, and its state can't be both",)
        )
    readers = readers_of(spec, stored, was or name)
    operators = len(place.table(was or name).spark.operators())
    found = compared(old, meaning_of(compiled), compiled, readers, operators)
    if was is not None:
        return renamed(found, was, readers)
    since = recorded_since(compiled.spec, old, place)
    if found.kind != "incompatible" or readers.names or since is None:
        return found
    effect = f"rebuilt from rows that its streams have recorded since {since:%Y-%m-%d %H:%M:%S} UTC"
    lost = "; what was folded from earlier rows is lost"
    if old.get("initial") is not None and compiled.spec.initial is None:
        lost += ", and its initial rows too, unless you put initial= back"
    return TableChange(name, "migratable", (*found.effects, effect + lost), rebuilt=since.isoformat())


def recorded_since(spec: nodes.TableSpec, old: Mapping[str, Any], place: AppHome) -> datetime | None:
    """Since when all streams of a table, whose logs it reads, have recorded rows; None if one has not."""
    found = []
    for stream in tree.sources(spec.input):
        log = TableLog(place.stream_home(stream.name).log_files)
        first = next(log.after(totals(log).upto), None)
        if stream.history_ms is None or stream.name not in old.get("shared", ()) or first is None:
            return None
        found.append(first.at)
    if not found or tree.reads(spec.input) or place.remote is not None:
        return None
    return max(found)


def check(spec: nodes.AppSpec, stored: dict[str, Any] | None, compiled: Compiled, place: AppHome) -> None:
    """Refuses a definition that the state on disk does not fit, and incomplete state."""
    app = spec.name
    _refuse_other_versions(stored or {}, place)
    tables: dict[str, Any] = (stored or {}).get("tables") or {}
    _refuse_other_case(app, compiled, tables)
    home, old = place.table(compiled.spec.name), tables.get(compiled.spec.name)
    if home.begun() is None:
        _refuse_old_name(compiled, tables, place)
        return
    if old is None:
        _refuse_unknown(app, compiled, place)
    refuse_lost_logs(app, compiled, home)
    _refuse_changes(spec, stored or {}, compiled, place)
    stored_directories = old.get("directories") or {}
    file_names.check(compiled.name, compiled.spec.site, stored_directories, compiled.files, home.spark)


def _refuse_other_versions(stored: dict[str, Any], place: AppHome) -> None:
    """Refuses a home in another layout, or whose checkpoints a newer Spark has written."""
    layout, spark = stored.get("layout", LAYOUT), stored.get("spark", "")
    if layout != LAYOUT:
        raise other_layout(f"{place.shown}/app.json", layout)
    if version(spark) > version(spark_version()):
        raise HomeUnusable(
            f"the home was last written by Spark {spark}, and this is Spark {spark_version()}; "
            "nothing was changed",
            given=f"{place.shown}/app.json",
            hint=f"install pyspark {spark} or newer; an older Spark may not read its checkpoints",
        )


def version(text: str) -> tuple[int, ...]:
    """The first two numbers of a version; checkpoints do not differ in the third.

    >>> version("4.3.1")
    (4, 3)
    """
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


def _refuse_old_name(compiled: Compiled, tables: Mapping[str, Any], place: AppHome) -> None:
    """Refuses to start a renamed table from nothing while its state is there under the old name."""
    was = compiled.spec.was
    if was in tables and place.table(str(was)).begun() is not None:
        raise StateMismatch(
            f"{compiled.name} was called {was}, and its state is still there; nothing was changed",
            where=compiled.spec.site,
            given=f"was={was!r}",
            hint=f"{_MIGRATE}; or leave was= out, and it starts from the first row",
        )


def _refuse_changes(
    spec: nodes.AppSpec, stored: Mapping[str, Any], compiled: Compiled, place: AppHome
) -> None:
    old = stored["tables"][compiled.spec.name]
    change = change_of(spec, stored, compiled, place)
    fits = change.kind in ("same", "compatible")
    changes = [] if fits else differences(old["meaning"], meaning_of(compiled))
    asked = compiled.spec.partitions
    # A resize changes the checkpoint and not the stored plan.
    on_disk = place.table(compiled.spec.name).spark.partitions() or old["partitions"]
    if asked is not None and asked != on_disk:
        changes.append(f"partitions: {on_disk} on disk, {asked} now (fixed at the first start)")
    if not changes:
        return
    can = change.kind == "migratable"
    more = f"{_MIGRATE}; or " if can else ""
    why = "" if can else ". keyfold plan APP.py says why it can't be migrated"
    raise StateMismatch(
        f"the state of {compiled.name} was written by another definition{', and can be migrated' * can}; "
        "nothing was changed",
        where=compiled.spec.site,
        given="\n".join(changes),
        hint=f"{more}go back to the old definition; or give the table a new name, which starts from the "
        f"first row; or {_reset(compiled)}; or use another home (--home DIR). Until then "
        f"keyfold get, rows and rejected still read the stored tables ({place.shown}){why}",
    )


def _refuse_unknown(app: str, compiled: Compiled, place: AppHome) -> NoReturn:
    """Refuses state without its definition: any definition would be accepted as the right one."""
    raise HomeUnusable(
        f"{compiled.name} has state, but {place.shown}/app.json does not record which definition wrote it; "
        "nothing was changed",
        given=f"{place.table(compiled.spec.name).shown}/checkpoint",
        hint=f"restore app.json as it was when the app last ran; or {_reset(compiled)}",
    )


def check_log(app: str, compiled: Compiled | CompiledStream, home: TableHome) -> None:
    """Refuses a checkpoint that is older than the log: its batches would run, and publish nothing."""
    begun, newest = home.begun(), TableLog(home.log_files).newest()
    if newest is not None and newest > (-1 if begun is None else begun):
        raise ahead_of_state(compiled, "log", newest, home, begun)


def ahead_of_state(
    compiled: Compiled | CompiledStream, what: str, at: int, home: TableHome, state: int | None
) -> HomeUnusable:
    """The error of a log, or of a view, that has batches which the checkpoint has not."""
    has = "is missing" if state is None else f"is at batch {state}"
    return HomeUnusable(
        f"the {what} of {compiled.name} is at batch {at}, and its checkpoint {has}; nothing was changed",
        given=f"{home.shown}/checkpoint",
        hint=f"restore the checkpoint that belongs to the {what}; or {_reset(compiled)}",
    )


def refuse_lost_logs(app: str, compiled: Compiled | CompiledStream, home: TableHome) -> None:
    """Refuses a checkpoint without the log of its files: they would be read twice, or never."""
    missing = home.spark.missing_log_entries(compiled.files.numbers())
    if missing:
        raise HomeUnusable(
            f"{compiled.name} can't continue: files that record what it has read are missing; "
            "nothing was changed",
            given=", ".join(map(str, missing)),
            hint=f"restore them from a backup of the home; or {_reset(compiled)}",
        )


def _reset(compiled: Compiled | CompiledStream) -> str:
    if isinstance(compiled, CompiledStream):
        return f"`keyfold reset {compiled.name} --with-readers`: the stream and its tables then start anew"
    return f"`keyfold reset {compiled.name}`, after which it starts from the first row"


def _refuse_other_case(app: str, compiled: Compiled, tables: dict[str, Any]) -> None:
    """Refuses a name that differs only in case: it would have a state of its own, but the same view."""
    name = compiled.spec.name
    for known in tables:
        if known.lower() == name.lower() and known != name:
            raise StateMismatch(
                f"{app}.{name} differs from the table {known} on disk only in upper and lower case",
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
    """A part of the meaning for people: milliseconds are shown as a length of time."""
    length = re.fullmatch(r"(\d+) ms", text or "")
    return durations.text(int(length[1])) if length else text or "nothing"
