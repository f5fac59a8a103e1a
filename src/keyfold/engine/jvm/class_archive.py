"""The class archive: Spark's and the kernel's classes as a file that a JVM maps instead of loading jars.

Java calls it a dynamic class data sharing (CDS) archive. It saves a quarter of a start. The first good run on
a machine has it written by a process in the background (`archive_writer`); later starts use it.

An archive belongs to one JVM and one set of jars. Its name has a hash of both; the JVM compares them again,
and starts without the archive if they differ. On a truncated one the JVM crashes, so a note beside the
archive has its size. It is code, so it is only used when it and its directory belong to this user and nobody
else can write them.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from keyfold.engine.jvm.command import class_path
from keyfold.errors import JavaMissing
from keyfold.kernel.build import (
    cache_places,
    find_jar,
    java,
    java_version,
    module_directory,
    spark_version,
)
from keyfold.settings import Settings

PREFIX: Final = "keyfold-classes-"
SUFFIX: Final = ".jsa"
FAILED: Final = ".failed"
SIZE: Final = ".size"
# A failure may be a full disk or a shutdown: worth another attempt, but not at each run.
_RETRY_SECONDS: Final = 24 * 3600.0
# Two environments may be used in turn; an archive has about 180 MB.
KEPT: Final = 2
# At the address that it was written for: else Java first rewrites every pointer in it, in a copy in memory.
_MAPPED: Final = ("-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0", "-Xlog:cds*=off")
# The `kernel_dir` of this process's JVM, if it was started without an archive because there was none.
_missing: list[Path | None] = []


@dataclass(frozen=True)
class Archive:
    """The archive for one `java` and one kernel: where it is looked for, and whether it may be used."""

    path: Path
    written: bool
    failed: str | None

    @property
    def damaged(self) -> bool:
        """Whether there is a file that can't be used."""
        return not self.written and self.path.exists()


def find(java: str, kernel: Path, settings: Settings) -> Path | None:
    """The archive that fits, if there is one, marked as used now."""
    if not settings.class_archive:
        return None
    found = describe(java, kernel, settings)
    if not found.written:
        if found.failed is None:
            _missing.append(settings.kernel_dir)
        return None
    with suppress(OSError):
        os.utime(found.path)
    return found.path


def describe(java: str, kernel: Path, settings: Settings) -> Archive:
    """The archive for this `java` and kernel, written or not."""
    name = archive_name(java, kernel)
    places = cache_places(settings.kernel_dir)
    for place in places:
        if usable(place / name):
            return Archive(place / name, True, None)
    for place in places:
        if (failed := _failure(place / name)) is not None:
            return Archive(place / name, False, failed)
    there = [place for place in places if (place / name).exists()]
    return Archive((there or places)[0] / name, False, None)


def condition(settings: Settings) -> tuple[str, bool]:
    """What `keyfold doctor` shows of the archive, and whether something is wrong with it."""
    kernel = find_jar(settings.kernel_dir)
    if not settings.class_archive:
        return "turned off (class_archive)", False
    try:
        found = describe(java(), kernel, settings) if kernel else None
    except JavaMissing:
        found = None
    if found and found.written:
        return f"{found.path.stat().st_size // 1_000_000} MB, {found.path.parent}", False
    if found and found.failed:
        return f"could not be written: {found.failed}", True
    if found and found.damaged:
        return f"incomplete, or not private to this user: {found.path}", True
    return "none yet; the first good run has it written in the background", False


def options(archive: Path | None) -> tuple[str, ...]:
    """The JVM's options for using an archive: no messages, and no archive if it does not fit."""
    return () if archive is None else ("-Xshare:auto", f"-XX:SharedArchiveFile={archive}", *_MAPPED)


def archive_name(java: str, kernel: Path) -> str:
    """The file name for this JVM and these jars: their names, sizes and times."""
    digest = hashlib.sha256(java_version(java).encode())
    home = Path(java).resolve().parents[1]
    for file in (Path(java).resolve(), *sorted(home.glob("lib/server/libjvm.*")), *_jars(kernel)):
        found = file.stat()
        digest.update(f"\0{file}\0{found.st_size}\0{found.st_mtime_ns}".encode())
    return f"{PREFIX}{spark_version()}-{digest.hexdigest()[:16]}{SUFFIX}"


def _jars(kernel: Path) -> list[Path]:
    *_, jars, _ = class_path(kernel)
    return [*sorted(jars.parent.glob("*.jar")), kernel]


def usable(archive: Path) -> bool:
    """Whether the file exists, is complete, and only this user can have written it."""
    try:
        found, place = archive.lstat(), archive.parent.stat()
        complete = archive.with_suffix(SIZE).read_text() == str(found.st_size)
    except (OSError, UnicodeDecodeError):
        return False
    own = found.st_uid == place.st_uid == os.getuid()
    private = archive.is_file() and not archive.is_symlink() and not (found.st_mode | place.st_mode) & 0o022
    return complete and own and private


def _failure(archive: Path) -> str | None:
    """Why writing it failed recently."""
    note = archive.with_suffix(FAILED)
    try:
        if time.time() - note.stat().st_mtime < _RETRY_SECONDS:
            return note.read_text().strip()
    except (OSError, UnicodeDecodeError):
        pass
    return None


def remove(archive: Path) -> None:
    """Removes an archive with which no JVM came up."""
    with suppress(OSError):
        archive.unlink()


def write_missing() -> None:
    """Has the archive that this process lacked written by a process in the background; returns at once."""
    if not _missing:
        return
    kernel_dir = _missing.pop()
    _missing.clear()
    subprocess.Popen(
        [sys.executable, "-P", "-m", "keyfold.engine.jvm.archive_writer"],
        cwd="/",
        env=_environment(kernel_dir),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _environment(kernel_dir: Path | None) -> dict[str, str]:
    """The writer's environment, without the settings and modules of the user's app."""
    inherited = {
        n: v for n, v in os.environ.items() if not n.startswith(("KEYFOLD_", "PYSPARK_", "PYTHONPATH"))
    }
    modules = dict.fromkeys(str(module_directory(name).parent) for name in ("keyfold", "pyspark"))
    place = {"KEYFOLD_KERNEL_DIR": str(kernel_dir.resolve())} if kernel_dir else {}
    return {**inherited, **place, "PYTHONPATH": os.pathsep.join(modules)}
