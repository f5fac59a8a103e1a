"""Rows of a declaration (`kf.rows`), as files that streams can read.

The rows written by earlier starts must be the first of those declared now: rows may be appended, and only
those are new to the stream.
"""

from __future__ import annotations

from dataclasses import replace

from keyfold.engine.sources.json_rows import encode
from keyfold.engine.storage.contract import Storage
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import StateMismatch
from keyfold.plan.nodes import AppSpec, Source


def directories(spec: AppSpec, home: AppHome) -> dict[str, str]:
    """The directories that streams of `kf.rows` read, as URIs."""
    found = {s.name: home.stream(s.name) for s in _streams(spec)}
    for directory in found.values():
        directory.directory()
    return {name: directory.uri() for name, directory in found.items()}


def check(spec: AppSpec, home: AppHome) -> None:
    """Refuses a declaration in which rows that were read have changed or are missing."""
    for stream in _streams(spec):
        written, declared = _written_lines(home.stream(stream.name)), _lines(stream)
        if declared[: len(written)] != written:
            differs = next((n for n, w in enumerate(written) if declared[n : n + 1] != [w]), 0)
            raise StateMismatch(
                f"the rows of stream {stream.name} differ from those already folded; nothing was changed",
                where=stream.site,
                given=f"row {differs + 1} was {written[differs]}",
                hint="add rows at the end only; or start from scratch in another home (--home DIR)",
            )


def write(spec: AppSpec, home: AppHome) -> None:
    """Writes the rows that earlier starts have not written."""
    for stream in _streams(spec):
        directory = home.stream(stream.name)
        start = len(_written_lines(directory))
        new = _lines(stream)[start:]
        if new:
            directory.put_new(f"{start:012d}.json", "".join(line + "\n" for line in new).encode())


def as_written(stream: Source, home: AppHome) -> Source:
    """The stream with the rows that earlier starts have written; the next one reads those added since."""
    rows = (stream.connector.rows or ())[: len(_written_lines(home.stream(stream.name)))]
    return replace(stream, connector=replace(stream.connector, rows=rows))


def _streams(spec: AppSpec) -> list[Source]:
    return [s for s in spec.streams if s.connector.kind == "rows"]


def _lines(stream: Source) -> list[str]:
    return encode(stream.connector.rows or ()).split("\n")[:-1]


def _written_lines(directory: Storage) -> list[str]:
    files = [name for name in directory.list() if name.endswith(".json")]
    return [line for name in files for line in directory.read(name).decode().split("\n")[:-1]]
