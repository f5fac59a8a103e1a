"""The process that writes the class archive: runs a small app and has Java archive the classes it loads.

    python -m keyfold.engine.jvm.archive_writer

A lock allows one at a time, and the archive has another name until it is complete. The next one removes what
a killed one leaves, including the file of its JVM.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from keyfold import private
from keyfold.engine.jvm import class_archive
from keyfold.engine.jvm.command import JAVA_OPTIONS
from keyfold.errors import KeyfoldError
from keyfold.kernel.build import cache_places, java, kernel_jar, writable
from keyfold.settings import Settings, load

_WORK: Final = ".classes-"
_LEAST_DISK: Final = 1_000_000_000
_DUMP_SECONDS: Final = 600.0
# In so short a run the optimising compiler costs more than it saves.
_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -Xshare:auto"


def main() -> int:
    """Writes the archive if it is missing."""
    with suppress(OSError):
        os.nice(19)
    settings = load()
    place = writable(cache_places(settings.kernel_dir))
    with private.open_private(place / f"{class_archive.PREFIX}lock", "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return 0
        return _write(place, settings)


def _write(place: Path, settings: Settings) -> int:
    for left in place.glob(f"{_WORK}*"):
        shutil.rmtree(left, ignore_errors=True)
    kernel = kernel_jar(settings.kernel_dir)
    target = place / class_archive.archive_name(java(), kernel)
    if class_archive.usable(target):
        return 0
    with tempfile.TemporaryDirectory(dir=place, prefix=_WORK) as work:
        made = Path(work) / target.name
        try:
            if shutil.disk_usage(place).free < _LEAST_DISK:
                raise OSError(f"less than {_LEAST_DISK // 1_000_000} MB are free in {place}")
            _train(Path(work), made)
            _publish(made, target)
        except (OSError, KeyfoldError, subprocess.SubprocessError) as error:
            private.write(target.with_suffix(class_archive.FAILED), f"{error}\n".encode())
            return 1
    target.with_suffix(class_archive.FAILED).unlink(missing_ok=True)
    prune(place)
    return 0


def _train(work: Path, made: Path) -> None:
    """Runs an app in a JVM that archives, when it ends, all classes it has loaded."""
    from keyfold.engine.start import start
    from keyfold.engine.startup.options import StartOptions

    java = f'{_OPTIONS} -XX:ArchiveClassesAtExit="{made}"'
    settings = {
        "driver_memory": "1g",
        "master": "local[2]",
        "class_archive": False,
        "spark": {JAVA_OPTIONS: java},
    }
    spec, options = _app(work).spec(), StartOptions(alone=True)
    with start(spec, home=work / "home", settings=settings, options=options) as handle:
        handle.drain()
        handle.status()
    process = handle.spark.sparkContext._gateway.proc  # type: ignore[union-attr]
    handle.spark.stop()
    process.stdin.close()
    process.wait(_DUMP_SECONDS)


def _app(work: Path) -> Any:
    """An app with the sources, tables and windows that most apps have."""
    import keyfold as kf

    rows = [
        {"id": str(n), "k": f"k{n % 5}", "v": n / 2, "at": f"2026-01-01T00:{n % 60:02}:00Z"}
        for n in range(90)
    ]
    (work / "input").mkdir()
    (work / "input" / "1.json").write_text("".join(json.dumps(row) + "\n" for row in rows) + "no row\n")
    (work / "csv").mkdir()
    (work / "csv" / "1.csv").write_text("id,k,v\n1,a,2.5\n")
    app = kf.App("classes")
    stream = app.stream(
        "events",
        kf.files(str(work / "input"), format="json"),
        schema="id string, k string, v double, at timestamp",
        time="at",
        late="1 minute",
    )
    some = stream.where("v > 0").select("*", w="cast(v * 100 as bigint)")
    totals = some.by("k").table(
        "totals", n="count(*)", v="sum(v)", ids="count(distinct id)", newest="max(at)", ttl="30 days"
    )
    some.by("k").table(
        "folds",
        mean="avg(v)",
        best="max_by(id, v)",
        trend=kf.fold(
            zero={"v": "cast(null as double)"}, update={"v": "coalesce(0.9 * state.v + 0.1 * v, v)"}
        ),
    )
    some.by("k").tumbling("10 minutes").table("minutes", n="count(*)", v="sum(v)")
    totals.changes().by(all="1").table("all", n="sum(n)")
    lines = app.stream(
        "lines",
        kf.files(str(work / "csv"), format="csv", header=True),
        schema="id string, k string, v double",
    )
    lines.by("k").table("lines_by_k", n="count(*)")
    return app


def _publish(made: Path, target: Path) -> None:
    if not made.is_file() or not made.stat().st_size:
        raise OSError("Java wrote no archive")
    made.chmod(private.FILE)
    with made.open("rb") as file:
        os.fsync(file.fileno())
    private.write(target.with_suffix(class_archive.SIZE), str(made.stat().st_size).encode())
    os.replace(made, target)


def prune(place: Path) -> None:
    """Removes all but the archives that were used last, and old notes of failures."""
    found = sorted(place.glob(f"{class_archive.PREFIX}*"), key=lambda p: p.stat().st_mtime, reverse=True)
    archives = [path for path in found if path.suffix == class_archive.SUFFIX]
    notes = [path for path in found if path.suffix == class_archive.FAILED]
    for path in (*archives[class_archive.KEPT :], *notes):
        path.unlink(missing_ok=True)
        path.with_suffix(class_archive.SIZE).unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
