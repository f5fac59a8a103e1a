"""Checkpoint files without Hadoop: whole or not there, never overwritten by accident, readable either way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from keyfold.testing import shared_session

pytestmark = pytest.mark.jvm
OWN = "org.apache.spark.sql.execution.keyfold.io.LocalCheckpointFiles"
KEY = "spark.sql.streaming.checkpointFileManagerClass"


@pytest.fixture
def files(tmp_path: Path) -> Any:
    """keyfold's manager, made as Spark makes it: by its name in the settings."""
    return manager(tmp_path, OWN)


def manager(place: Path, name: str | None) -> Any:
    spark = shared_session()
    jvm = spark.sparkContext._jvm
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    conf.set(KEY, name) if name else conf.unset(KEY)
    checkpointing = jvm.org.apache.spark.sql.execution.streaming.checkpointing
    return checkpointing.CheckpointFileManager.create(path(place), conf)


def path(place: Path) -> Any:
    return shared_session().sparkContext._jvm.org.apache.hadoop.fs.Path(place.as_uri())


def write(files: Any, place: Path, text: str, *, overwrite: bool = False, close: bool = True) -> Any:
    out = files.createAtomic(path(place), overwrite)
    out.write(text.encode())
    out.close() if close else out.cancel()
    return out


def test_spark_uses_it(files: Any) -> None:
    assert files.getClass().getName() == OWN
    assert shared_session().conf.get(KEY) == OWN


def test_a_file_is_there_when_it_is_whole(files: Any, tmp_path: Path) -> None:
    out = files.createAtomic(path(tmp_path / "deep" / "1"), False)
    out.write(b"half")
    out.flush()
    assert not (tmp_path / "deep" / "1").exists()
    out.close()
    assert (tmp_path / "deep" / "1").read_text() == "half"
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["1"]


def test_a_file_given_up_leaves_nothing(files: Any, tmp_path: Path) -> None:
    write(files, tmp_path / "1", "no", close=False)
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_overwritten_only_on_purpose(files: Any, tmp_path: Path) -> None:
    write(files, tmp_path / "1", "first")
    with pytest.raises(Py4JJavaError, match="FileAlreadyExistsException"):
        write(files, tmp_path / "1", "second")
    assert (tmp_path / "1").read_text() == "first"
    write(files, tmp_path / "1", "third", overwrite=True)
    assert (tmp_path / "1").read_text() == "third"


def test_what_one_writes_the_other_reads(files: Any, tmp_path: Path) -> None:
    hadoop = shared_session().sparkContext._jvm.org.apache.hadoop.fs.FileSystem
    local = hadoop.getLocal(shared_session()._jsparkSession.sessionState().newHadoopConf())
    # Hadoop's own way leaves a checksum beside the file.
    out = local.create(path(tmp_path / "1"))
    out.write(b"theirs")
    out.close()
    assert (tmp_path / ".1.crc").exists()
    assert bytes(files.open(path(tmp_path / "1")).readAllBytes()) == b"theirs"
    write(files, tmp_path / "1", "ours, and longer", overwrite=True)
    assert not (tmp_path / ".1.crc").exists()
    assert bytes(local.open(path(tmp_path / "1")).readAllBytes()) == b"ours, and longer"
    assert bytes(manager(tmp_path, None).open(path(tmp_path / "1")).readAllBytes()) == b"ours, and longer"
