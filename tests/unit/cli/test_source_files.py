"""Which files an app consists of, and when one of them has changed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from keyfold.cli.app.loader import load
from keyfold.cli.app.source_files import SourceFiles

APP = """
import keyfold as kf
import beside_the_app

app = kf.App("shop")
app.stream("orders", kf.rate(1)).by("value").table("totals", n=beside_the_app.N)
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SourceFiles]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "shop.py").write_text(APP)
    (tmp_path / "beside_the_app.py").write_text('N = "count(*)"\n')
    load(str(tmp_path / "shop.py"))
    found = SourceFiles(tmp_path / "shop.py")
    yield found
    found.unload()


def written(file: Path, text: str, at: int) -> None:
    file.write_text(text)
    os.utime(file, (at, at))


def test_a_change_counts_when_it_has_settled(files: SourceFiles, tmp_path: Path) -> None:
    assert not files.changed()
    written(tmp_path / "shop.py", APP + "# half", 1)
    assert not files.changed(), "it may still be being written"
    written(tmp_path / "shop.py", APP + "# whole", 2)
    assert not files.changed()
    assert files.changed()
    files.note()
    assert not files.changed()


def test_modules_beside_the_app_are_watched_and_loaded_again(files: SourceFiles, tmp_path: Path) -> None:
    assert {m.__name__ for m in files.modules()} == {"keyfold_app_shop", "beside_the_app"}
    written(tmp_path / "beside_the_app.py", 'N = "sum(value)"\n', 1)
    assert (files.changed(), files.changed()) == (False, True)
    files.unload()
    [table] = load(str(tmp_path / "shop.py")).app.spec().tables
    assert "sum(value)" in str(table)


def test_a_file_that_is_gone_is_a_change(files: SourceFiles, tmp_path: Path) -> None:
    (tmp_path / "shop.py").unlink()
    assert (files.changed(), files.changed()) == (False, True)
