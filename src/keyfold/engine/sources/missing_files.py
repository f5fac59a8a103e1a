"""Input files that are gone before they were read: a batch waits for them, or is told to go on without.

A file that a batch was planned with is a part of it: Spark's own source would run the batch again without a
file that has meanwhile gone, and never look for it again. With the setting `missing_files=skip` a start
writes down which files of an unfinished batch are not there. The sources leave those out from then on, also
if they come back, and the batch lists them with its rejected rows.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any, Final

from keyfold.engine.compile.table import Compiled
from keyfold.engine.log import chain
from keyfold.engine.session import kernel
from keyfold.engine.sources import file_names
from keyfold.engine.sources.file_names import Taken
from keyfold.engine.storage.layout import AppHome, TableHome, replace_file
from keyfold.errors import HomeUnusable
from keyfold.plan.nodes import AppSpec
from keyfold.views.contract import ViewStore

REASON: Final = "the file is missing"


def skip(spec: AppSpec, compiled: Compiled, place: AppHome, store: ViewStore) -> None:
    """Writes down which files of the table's unfinished batch are to be left out."""
    home = place.table(compiled.spec.name)
    planned = _planned(home, file_names.numbers(compiled))
    gone = [(source, file, path) for source, file, path in _located(compiled, planned) if path]
    new = [found for found in gone if found[1].name not in _known(home, found[0])]
    if not new:
        return
    batch = home.begun()
    assert batch is not None
    _refuse_late(spec, compiled, place, store, batch, [path for _, _, path in new])
    for source in {source for source, _, _ in new}:
        rows = [
            {"name": file.name, "file": path, "stream": file.stream, "batch": batch}
            for at, file, path in new
            if at == source
        ]
        replace_file(home.skipped(source), json.dumps([*home.read_skipped(source), *rows]).encode())


def rejected(home: TableHome) -> dict[int, list[dict[str, Any]]]:
    """What each batch says of the files that it left out."""
    found = defaultdict(list)
    for log in home.checkpoint.glob("sources/[0-9]*"):
        for row in home.read_skipped(int(log.name)):
            said = {"reason": REASON, "raw": row["file"], "stream": row["stream"]}
            found[row["batch"]].append(said)
    return dict(found)


def _planned(home: TableHome, numbers: list[int]) -> list[tuple[int, Taken]]:
    """The files of streams that an unfinished batch is to read, with the number of the source."""
    begun = home.begun()
    if begun is None or begun == home.committed():
        return []
    upto, before = home.file_logs(begun, numbers), home.file_logs(begun - 1, numbers)
    return [
        (source, file)
        for source, file in file_names.taken(home)
        if file.stream and before.get(source, -1) < file.step <= upto.get(source, -1)
    ]


def _located(compiled: Compiled, planned: list[tuple[int, Taken]]) -> list[tuple[int, Taken, str | None]]:
    """With the path of each that is not there."""
    api, found = kernel(compiled.changes.sparkSession), []
    for stream in {file.stream for _, file in planned} & set(file_names.directories(compiled)):
        mine = [(source, file) for source, file in planned if file.stream == stream]
        told = json.loads(api.locateFiles(compiled.changes._jdf, stream, [file.name for _, file in mine]))
        found += [(*one, None if there else path) for one, (path, there) in zip(mine, told, strict=True)]
    return found


def _known(home: TableHome, source: int) -> set[str]:
    return {row["name"] for row in home.read_skipped(source)}


def _refuse_late(
    spec: AppSpec, compiled: Compiled, place: AppHome, store: ViewStore, batch: int, gone: list[str]
) -> None:
    """Refuses if the batch has reached the view or another table: its rows can't be retracted there."""
    name = compiled.spec.name
    position = store.position(name)
    sent = max((chain.sent(use, place) for use in chain.readers(spec, name)), default=-1)
    if (position is not None and position.batch >= batch) or sent >= batch:
        raise HomeUnusable(
            f"{spec.name}.{name} can't go on without files of batch {batch}: their rows are already in the "
            "view or in other tables; nothing was changed",
            where=compiled.spec.site,
            given="\n".join(gone),
            hint=f"bring them back; or `keyfold reset {spec.name}.{name}`, after which it starts from the "
            "first row that its sources still have",
        )
