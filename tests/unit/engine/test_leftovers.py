"""What an interrupted command leaves: it is removed, unless Spark still writes there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from keyfold.engine.operations import leftovers
from keyfold.engine.storage.layout import AppHome


def test_a_directory_that_is_still_written_does_not_hide_the_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = AppHome(tmp_path / "shop")
    home.storage.put("rescaling/a", b"x")

    def full(*_: object, **__: object) -> None:
        raise OSError(39, "Directory not empty")

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", full)
        with pytest.raises(OSError, match="not empty"):
            home.storage.delete("rescaling")
        leftovers.discard(home, "rescaling")
    assert home.storage.list("rescaling") == ["a"]
    leftovers.discard(home, "rescaling")
    assert home.storage.list("rescaling") == []
