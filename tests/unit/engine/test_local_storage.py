"""Storage on a local disk: the contract, private files, and a write that fails or is killed at any step."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from keyfold.engine.storage import local
from keyfold.engine.storage.local import LocalStorage
from keyfold.fault_points import FaultPoint, handled_by
from tests.storage.contract import StorageContract

BEFORE_ITS_NAME = [FaultPoint.STORAGE_WRITTEN, FaultPoint.STORAGE_FLUSHED]
STEPS = [*BEFORE_ITS_NAME, FaultPoint.STORAGE_NAMED]


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "root")


class TestLocalStorage(StorageContract):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> LocalStorage:
        return LocalStorage(tmp_path / "root")


class TestLocalStorageWithoutHardLinks(StorageContract):
    @pytest.fixture
    def storage(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalStorage:
        def refused(*_: Any) -> None:
            raise PermissionError(errno.EPERM, "Operation not permitted")

        monkeypatch.setattr(local.os, "link", refused)
        return LocalStorage(tmp_path / "root")


def full_at(step: FaultPoint) -> Any:
    def handler(point: FaultPoint, _: dict[str, Any]) -> None:
        if point is step:
            raise OSError(errno.ENOSPC, "No space left on device")

    return handled_by(handler)


def everything(root: Path) -> list[str]:
    return sorted(path.name for path in root.rglob("*") if path.is_file())


@pytest.mark.parametrize("step", BEFORE_ITS_NAME)
def test_a_disk_that_is_full_before_a_file_has_its_name_leaves_the_old_one(
    storage: LocalStorage, step: FaultPoint
) -> None:
    storage.put("f", b"old")
    with full_at(step):
        with pytest.raises(OSError, match="No space left"):
            storage.put("f", b"new")
        with pytest.raises(OSError, match="No space left"):
            storage.put_new("g", b"new")
    assert storage.read("f") == b"old"
    assert everything(storage.root) == ["f"]
    assert storage.put_new("g", b"new"), "the name is still free"


def test_a_failure_after_a_file_has_its_name_leaves_it_whole(storage: LocalStorage) -> None:
    with full_at(FaultPoint.STORAGE_NAMED):
        with pytest.raises(OSError, match="No space left"):
            storage.put("f", b"new")
        with pytest.raises(OSError, match="No space left"):
            storage.put_new("g", b"new")
    assert (storage.read("f"), storage.read("g")) == (b"new", b"new")
    assert everything(storage.root) == ["f", "g"]
    assert not storage.put_new("g", b"newer")


def test_a_file_that_does_not_fit_on_the_disk_leaves_nothing(storage: LocalStorage) -> None:
    """With a real limit of the system's: a file may not grow beyond a few bytes."""
    storage.put("f", b"old")
    code = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from keyfold.engine.storage.local import LocalStorage\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "for write in (LocalStorage(Path(sys.argv[1])).put, LocalStorage(Path(sys.argv[1])).put_new):\n"
        "    try: write('f' if write.__name__ == 'put' else 'g', b'x' * 5000)\n"
        "    except OSError as error: print(error.strerror)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(storage.root)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "File too large\nFile too large\n"
    assert everything(storage.root) == ["f"]
    assert storage.read("f") == b"old"


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("write", ["put", "put_new"])
def test_a_process_killed_at_any_step_leaves_a_whole_file_or_none(
    storage: LocalStorage, step: FaultPoint, write: str
) -> None:
    code = (
        "import os, sys; from pathlib import Path\n"
        "from keyfold.engine.storage.local import LocalStorage\n"
        "from keyfold.fault_points import handled_by\n"
        "def end(point, facts):\n"
        "    if point == sys.argv[2]: os._exit(9)\n"
        "with handled_by(end): getattr(LocalStorage(Path(sys.argv[1])), sys.argv[3])('f', b'whole')\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(storage.root), step, write], check=False)
    assert done.returncode == 9
    if step is FaultPoint.STORAGE_NAMED:
        assert storage.read("f") == b"whole"
    assert storage.list() == (["f"] if step is FaultPoint.STORAGE_NAMED else [])
    storage.put("f", b"again")
    assert storage.read("f") == b"again"


def test_a_link_whose_answer_was_lost_counts(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def lost(source: Path, target: Path) -> None:
        link(source, target)
        raise FileExistsError(errno.EEXIST, "File exists")

    monkeypatch.setattr(local.os, "link", lost)
    assert storage.put_new("f", b"x")
    assert storage.read("f") == b"x"


def test_files_and_directories_are_their_owners_alone(storage: LocalStorage) -> None:
    before = os.umask(0)
    try:
        storage.put("a/b/c", b"x")
        storage.put_new("a/b/d", b"x")
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in storage.root.rglob("*")}
    assert modes == {"a": 0o700, "b": 0o700, "c": 0o600, "d": 0o600}
