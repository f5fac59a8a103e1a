"""The recorded definition of an app: the content of app.json, and what a table's state depends on."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.compile.join import JOINED
from keyfold.engine.compile.stream import CompiledStream
from keyfold.engine.log.manifest import LAYOUT
from keyfold.engine.log.shared_streams import SharedStreams
from keyfold.engine.storage.stored_app import StoredApp, StoredLog, StoredStream, StoredTable
from keyfold.kernel.build import spark_version
from keyfold.plan import durations, nodes, tree
from keyfold.plan.describe import phrases
from keyfold.plan.describe import text as describe
from keyfold.plan.pattern.syntax import PatternSpec


def plan_of(
    shared: SharedStreams,
    compiled: Iterable[Compiled],
    partitions: Mapping[str, int],
    streams: Mapping[str, CompiledStream],
) -> StoredApp:
    """The content of app.json: the declaration as the user wrote it, and what it means to Spark."""
    spec = shared.spec
    return StoredApp(
        tables={
            c.spec.name: entry_of(c, tuple(shared.of(c.spec)), partitions[c.spec.name]) for c in compiled
        },
        streams={s.name: _stream(s.name in shared.chosen, streams.get(s.name)) for s in spec.streams},
        declared=describe.to_dict(spec),
        layout=LAYOUT,
        spark=spark_version(),
        app=spec.name,
    )


def entry_of(compiled: Compiled, shared: tuple[str, ...], partitions: int) -> StoredTable:
    """What is recorded of a table. `shared`: the streams whose logs it reads."""
    entry = StoredTable(
        streams=tuple(s.name for s in tree.sources(compiled.spec.input)),
        tables=tuple(dict.fromkeys(node.table for node in tree.reads(compiled.spec.input))),
        directories=compiled.files.directories(),
        shared=shared,
        partitions=partitions,
    )
    return with_definition(entry, compiled)


def with_definition(entry: StoredTable, compiled: Compiled) -> StoredTable:
    """The same with the definition that state depends on, and the state that follows from it."""
    meaning = meaning_of(compiled)
    return replace(
        entry,
        fingerprint=fingerprint(meaning),
        meaning=meaning,
        state=json.loads(compiled.state_schema),
        layout=dict(compiled.layout),
    )


def _stream(shared: bool, compiled: CompiledStream | None) -> StoredStream:
    """Whether a stream is shared and, if it has a log, what the log contains."""
    if compiled is None:
        return StoredStream(shared)
    log = StoredLog(compiled.spec.history_ms, compiled.columns, compiled.files.directories())
    return StoredStream(shared, log)


def meaning_of(compiled: Compiled) -> dict[str, str]:
    """The parts of a definition that state depends on, each as text independent of its spelling."""
    spec = compiled.spec
    # TTL, windows and patterns measure event time and folds order rows by it; other tables ignore it.
    timed = (
        spec.ttl_ms is not None
        or spec.window is not None
        or isinstance(spec.body, PatternSpec)
        or any(isinstance(c, nodes.FoldSpec) for _, c in spec.columns)
    )
    times = {f"time:{s.name}": f"{s.time or 'arrival'}" for s in tree.sources(spec.input) if timed}
    ttl = {} if spec.ttl_ms is None else {"ttl": f"{spec.ttl_ms} ms"}
    read = {f"from:{number}": _reading(node) for number, node in enumerate(tree.reads(spec.input))}
    # The length of `idle` may change, but not whether it is set, since it adds a source.
    idle = {} if spec.idle_ms is None else {"idle": "yes"}
    return {**compiled.meaning, **ttl, **times, **read, **_window(spec), **idle}


def _reading(node: nodes.Changes | nodes.Enrich) -> str:
    """How a definition reads another table."""
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
    # A gap given as an expression is in the kernel's part of the meaning.
    kind = phrases.window_words(replace(spec.window, gap=None if spec.window.gap is None else "by row"))
    found = {"window": kind, "emit": spec.emit}
    if spec.keep_ms is not None:
        # Timers are set to the expiry of retained windows.
        found["keep"] = durations.text(spec.keep_ms)
    return found


def fingerprint(meaning: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(meaning, sort_keys=True).encode()).hexdigest()[:16]


def changed_parts(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """The parts that differ. Definitions by earlier versions lack the types of joined columns."""
    parts = [part for part in dict.fromkeys((*old, *new)) if old.get(part) != new.get(part)]
    return [part for part in parts if part in old or f":{JOINED}:" not in part]


def differences(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """The differences, one line each."""
    return [
        f"{part.replace(':', ' ')}: {_format(old.get(part))} on disk, {_format(new.get(part))} now"
        for part in changed_parts(old, new)
    ]


def _format(text: str | None) -> str:
    """A part of the meaning as text for people, with milliseconds as a duration."""
    length = re.fullmatch(r"(\d+) ms", text or "")
    return durations.text(int(length[1])) if length else text or "nothing"
