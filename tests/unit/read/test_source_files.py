"""Which files a batch has read, from the logs of Spark's file sources: only the entries that matter."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from keyfold.engine.storage.local import LocalStorage
from keyfold.engine.storage.source_offsets import FilesOffset
from keyfold.engine.storage.spark_checkpoint import SparkCheckpoint
from keyfold.engine.storage.stored_file import StoredFile
from keyfold.read.explain import source_files


def entry(checkpoint: Path, name: str, *batches: int, each: int = 1) -> None:
    """An entry with as many files of each batch."""
    files = [
        {"path": f"clicks:/{batch}-{number}.json", "timestamp": 1, "batchId": batch}
        for batch in batches
        for number in range(each)
    ]
    path = checkpoint / "sources/0" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["v1", *map(json.dumps, files)]))


def read(checkpoint: Path, upto: int, before: int | None) -> dict[str, list[str]]:
    earlier = [] if before is None else [FilesOffset(before)]
    return dict(source_files.read(SparkCheckpoint(LocalStorage(checkpoint)), [FilesOffset(upto)], earlier))


def test_a_batchs_files_are_in_its_own_entries_or_in_the_next_compacted_one(tmp_path: Path) -> None:
    entry(tmp_path, "2.compact", 0, 1, 2)
    for number in (3, 4):
        entry(tmp_path, str(number), number)
    assert read(tmp_path, 1, 0) == {"clicks": ["1-0.json"]}
    assert read(tmp_path, 3, 1) == {"clicks": ["2-0.json", "3-0.json"]}
    assert read(tmp_path, 4, None) == {"clicks": [f"{n}-0.json" for n in range(5)]}
    assert read(tmp_path, 4, 4) == {}


def test_only_the_entries_between_two_positions_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        entry(tmp_path, str(number), number)
    asked: list[str] = []
    read_text = StoredFile.read_text

    def counted(self: StoredFile) -> str:
        asked.append(self.name)
        return read_text(self)

    monkeypatch.setattr(StoredFile, "read_text", counted)
    assert read(tmp_path, 9, 7) == {"clicks": ["8-0.json", "9-0.json"]}
    assert asked == ["8", "9"]


def test_the_first_files_of_many_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry(tmp_path, "0", 0, each=3 * source_files.MOST)
    parsed: list[str] = []
    loads = json.loads

    def counted(line: str) -> object:
        parsed.append(line)
        return loads(line)

    monkeypatch.setattr(source_files.json, "loads", counted)
    assert read(tmp_path, 0, None) == {"clicks": [f"0-{n}.json" for n in range(source_files.MOST)]}
    assert len(parsed) == source_files.MOST


def test_entries_that_spark_removes_meanwhile_are_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        entry(tmp_path, str(number), number)
    (tmp_path / "sources/0/1").unlink()
    assert read(tmp_path, 1, 0) == {}
    listed = StoredFile.numbered_entries

    def older(self: StoredFile) -> list[StoredFile]:
        return listed(self) if self.path == "sources" else [*listed(self), self / 1]

    monkeypatch.setattr(StoredFile, "numbered_entries", older)
    assert read(tmp_path, 1, 0) == {}
