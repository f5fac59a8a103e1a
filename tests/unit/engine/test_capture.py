"""What a savepoint captures of a query that Spark keeps planning."""

from __future__ import annotations

from pathlib import Path

from keyfold.engine.savepoint.capture import Capture, silent
from keyfold.engine.storage.contract import FileFacts
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.local import LocalStorage

CHECKPOINT = "streams/orders/checkpoint"


class Planning(LocalStorage):
    """Spark plans a batch while files are listed, when those of its source have been listed already."""

    def files(self, name: str = "") -> tuple[FileFacts, ...]:
        listed = super().files(name)
        if name.startswith("streams"):
            self.put(f"{CHECKPOINT}/sources/0/1", b"what it reads")
            self.put(f"{CHECKPOINT}/offsets/1", b"the batch")
            listed += tuple(file for file in super().files(name) if file.name.endswith("offsets/1"))
        return listed


def captured(storage: LocalStorage) -> set[str]:
    capture = Capture(AppHome(storage.root, storage), "now", live=True, why=None, progress=silent)
    capture.take_streams()
    found = {file.name for file in LocalStorage(storage.root).files("savepoints/now")}
    return {name.partition("/checkpoint/")[2] for name in found}


def test_a_batch_that_is_planned_while_files_are_listed_is_left_out(tmp_path: Path) -> None:
    storage = Planning(tmp_path)
    for name in ("sources/0/0", "offsets/0", "commits/0"):
        storage.put(f"{CHECKPOINT}/{name}", b"")
    assert captured(storage) == {"sources/0/0", "offsets/0", "commits/0"}


def test_a_batch_that_was_planned_before_is_captured_with_what_it_reads(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    for name in ("sources/0/0", "offsets/0", "commits/0", "sources/0/1", "offsets/1"):
        storage.put(f"{CHECKPOINT}/{name}", b"")
    assert captured(storage) == {"sources/0/0", "offsets/0", "commits/0", "sources/0/1", "offsets/1"}
