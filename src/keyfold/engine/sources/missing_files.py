"""Input files that disappeared before they were read: a batch needs them, or is set to skip them.

A file that a batch was planned with is part of it: Spark's own source would run the batch again without a
file that has disappeared meanwhile, and never look for it again. With the setting `missing_files=skip` a
start records which files of an unfinished batch are missing. The sources skip those from then on, even if
they come back, and the batch lists them with its rejected rows.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Final

from keyfold.engine.sources.file_names import QueryFiles, ReadFile, read_files
from keyfold.engine.storage.layout import TableHome
from keyfold.engine.storage.spark_checkpoint import SparkCheckpoint
from keyfold.errors import HomeUnusable

REASON: Final = "the file is missing"


@dataclass(frozen=True)
class MissingFile:
    """A file of an unfinished batch that does not exist: its source, its log entry, its path."""

    source: int
    file: ReadFile
    path: str


def skip(table: str, site: object, files: QueryFiles, home: TableHome, published: int) -> None:
    """Records which files of a table's unfinished batch are to be skipped.

    `table` is named as `app.table`. `published`: the newest batch that the view or another table has seen.
    """
    missing = [found for found in _missing(files, home.spark) if _is_new(found, home.spark)]
    if not missing:
        return
    batch = home.planned_batch()
    assert batch is not None
    if published >= batch:
        _refuse_published(table, site, batch, missing)
    for source in {found.source for found in missing}:
        rows = [
            {"name": found.file.name, "file": found.path, "stream": found.file.stream, "batch": batch}
            for found in missing
            if found.source == source
        ]
        home.spark.sources.skip(source, rows)


def rejected_rows(home: TableHome) -> dict[int, list[dict[str, Any]]]:
    """The rejected rows that stand for skipped files, by batch."""
    found = defaultdict(list)
    for log in home.spark.sources.directories():
        for row in home.spark.sources.skipped_files(int(log.name)):
            rejection = {"reason": REASON, "raw": row["file"], "stream": row["stream"]}
            found[row["batch"]].append(rejection)
    return dict(found)


def _missing(files: QueryFiles, checkpoint: SparkCheckpoint) -> list[MissingFile]:
    planned, missing = _planned_files(checkpoint, files.numbers()), []
    for stream in {file.stream for _, file in planned} & set(files.directories()):
        mine = [(source, file) for source, file in planned if file.stream == stream]
        located = files.locate(stream, [file.name for _, file in mine])
        for (source, file), (path, exists) in zip(mine, located, strict=True):
            if not exists:
                missing.append(MissingFile(source, file, path))
    return missing


def _planned_files(checkpoint: SparkCheckpoint, numbers: list[int]) -> list[tuple[int, ReadFile]]:
    """The files of streams that an unfinished batch is to read, with the number of the source."""
    begun = checkpoint.planned_batch()
    if begun is None or begun == checkpoint.committed_batch():
        return []
    upto, before = checkpoint.log_offsets(begun, numbers), checkpoint.log_offsets(begun - 1, numbers)
    return [
        (source, file)
        for source, file in read_files(checkpoint)
        if file.stream and before.get(source, -1) < file.entry <= upto.get(source, -1)
    ]


def _is_new(found: MissingFile, checkpoint: SparkCheckpoint) -> bool:
    return all(row["name"] != found.file.name for row in checkpoint.sources.skipped_files(found.source))


def _refuse_published(table: str, site: object, batch: int, missing: list[MissingFile]) -> None:
    """Rows that reached the view or another table can't be retracted there."""
    raise HomeUnusable(
        f"{table} can't continue without files of batch {batch}: their rows are already in the "
        "view or in other tables; nothing was changed",
        where=site,
        given="\n".join(found.path for found in missing),
        hint=f"restore them; or `keyfold reset {table}`, after which it starts from the "
        "first row that its sources still have",
    )
