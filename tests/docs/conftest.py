"""A place for pages and the README to run in."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.doc_pages import leave_no_modules


@pytest.fixture(scope="session")
def _directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Spark takes relative paths from where its JVM was started, so that all pages have to run there."""
    directory = tmp_path_factory.mktemp("docs") / "here"
    directory.mkdir()
    before = Path.cwd()
    os.chdir(directory)
    try:
        from keyfold.testing import shared_session

        shared_session()
    finally:
        os.chdir(before)
    return directory


@pytest.fixture
def place(_directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current directory, empty, with no setting in the environment."""
    from pyspark.sql import SparkSession

    # Emptied, not recreated: it is where the JVM is, and its Python workers begin.
    for left in _directory.iterdir():
        shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
    # Commands and pages stop the session that they believe their own; all pages share this one.
    monkeypatch.setattr(SparkSession, "stop", lambda self: None)
    monkeypatch.chdir(_directory)
    monkeypatch.setattr(sys, "path", [str(_directory), *sys.path])
    for name in [name for name in os.environ if name.startswith("KEYFOLD_")]:
        monkeypatch.delenv(name)
    # `keyfold run` sets it; what is set here first is put back afterwards.
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setenv("MPLBACKEND", "agg")
    yield _directory
    leave_no_modules(_directory)
