"""How Java is started: directly, with an archive of its classes, and never left behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from keyfold.engine.jvm import class_archive, short_run
from keyfold.engine.jvm.command import JAVA_OPTIONS, java_command, needs_spark_submit
from keyfold.engine.polling import wait_until
from keyfold.kernel import build
from keyfold.settings import load
from tests.cli.conftest import Result, write
from tests.cli.test_run import ENVIRONMENT, KEYFOLD

pytestmark = pytest.mark.jvm

APP = """
import keyfold as kf
app = kf.App("shop")
orders = app.stream("orders", kf.rows([{"k": "a"}, {"k": "b"}]), schema="k string")
orders.by("k").table("totals", n="count(*)")
"""
SPARK = "org.apache.spark.deploy.SparkSubmit"
SHARED = "source: shared objects file (top)"
OF_KERNEL = "org.apache.spark.sql.keyfold.api.KernelApi$ "


def test_the_command_is_the_one_that_sparks_launcher_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dfrom=environment")
    wanted = {
        "spark.master": "local[2]",
        "spark.driver.memory": "3g",
        JAVA_OPTIONS: "-Da=b -Dc='d e'",
    }
    assert not needs_spark_submit(wanted)
    home = build.spark_home()
    settings = [word for name, value in wanted.items() for word in ("--conf", f"{name}={value}")]
    launcher = ["-cp", f"{home}/jars/*", "org.apache.spark.launcher.Main"]
    printed = subprocess.run(
        [build.java(), *launcher, SPARK, *settings, "pyspark-shell"],
        env={**os.environ, "SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13"},
        capture_output=True,
        text=True,
        check=True,
    )
    theirs = [word for word in printed.stdout.split("\0") if word.strip()]
    ours = java_command(build.java(), tmp_path / "kernel.jar", wanted, tmp_path / "properties")

    def options(command: list[str]) -> list[str]:
        return command[1 : command.index(SPARK)]

    [_, their_path, *their_options], [_, our_path, *our_options] = options(theirs), options(ours)
    assert our_options == their_options
    assert our_path.split(":") == [
        *their_path.removeprefix(f"{home}/conf:").split(":"),
        f"{tmp_path}/kernel.jar",
    ]


class Cached:
    """An app with a cache of its own, to which the kernel is copied."""

    def __init__(self, where: Path) -> None:
        self.where, self.cache = where, where / "cache"
        self.cache.mkdir(mode=0o700)
        self.kernel = self.cache / build.jar_name()
        shutil.copy(build.kernel_jar(), self.kernel)
        write(where / "shop.py", APP)

    @property
    def archive(self) -> Path:
        found = class_archive.archive_name(build.java(), self.kernel)
        return self.cache / found

    def run(self, **variables: str) -> tuple[Result, str]:
        """A drain, with a log of where its JVM took classes from."""
        for old in self.where.glob("classes-*.log"):
            old.unlink()
        # The process that writes the archive has a JVM, and so a log, of its own.
        log = self.where / "classes-%p.log"
        options = f"{ENVIRONMENT['SPARK_SUBMIT_OPTS']} -Xlog:class+load:file={log}"
        shutil.rmtree(self.where / ".keyfold", ignore_errors=True)
        done = subprocess.run(
            [*KEYFOLD, "run", "shop.py", "--drain", "--json"],
            cwd=self.where,
            env={
                **ENVIRONMENT,
                "KEYFOLD_KERNEL_DIR": str(self.cache),
                "SPARK_SUBMIT_OPTS": options,
                **variables,
            },
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        # Java has ended before the archive is written. The numbers of processes are used again.
        first = min(self.where.glob("classes-*.log"), key=lambda path: path.stat().st_mtime_ns)
        return Result(done.returncode, done.stdout, done.stderr), first.read_text()

    def writers(self) -> list[psutil.Process]:
        """The processes that write an archive into this cache."""
        found = []
        for process in psutil.process_iter():
            try:
                words, variables = process.cmdline(), process.environ()
            except psutil.Error:
                continue
            if any("archive_writer" in w for w in words) and variables.get("KEYFOLD_KERNEL_DIR") == str(
                self.cache
            ):
                found.append(process)
        return found


def from_archive(log: str) -> bool:
    """Whether the kernel's entry point came from the archive; it must have been loaded."""
    [line] = [line for line in log.splitlines() if OF_KERNEL in line]
    return SHARED in line


def good(run: Result) -> None:
    assert run.code == 0, run.err
    assert run.json["tables"]["totals"]["keys"] == 2
    assert [line for line in run.err.splitlines() if not line.startswith("keyfold: ")] == []


def test_the_first_run_has_an_archive_written_that_later_runs_use_while_it_fits(tmp_path: Path) -> None:
    cached = Cached(tmp_path)
    first, log = cached.run()
    good(first)
    assert not from_archive(log)
    assert wait_until(lambda: class_archive.usable(cached.archive) or not cached.writers(), 400)
    assert class_archive.usable(cached.archive), [path.read_text() for path in cached.cache.glob("*.failed")]
    assert wait_until(lambda: not cached.writers(), 60)
    assert not list(cached.cache.glob(".classes-*"))

    second, log = cached.run()
    good(second)
    assert from_archive(log)
    assert not cached.writers(), "there is one"
    _, log = cached.run(KEYFOLD_CLASS_ARCHIVE="false")
    assert not from_archive(log)

    whole = cached.archive.read_bytes()
    cached.archive.write_bytes(b"no archive" + whole[10:])
    run, log = cached.run()
    good(run)
    assert not from_archive(log), "Java finds out by itself"

    cached.archive.write_bytes(whole[:-5_000_000])
    run, log = cached.run()
    good(run)
    assert not from_archive(log)
    writers = cached.writers()
    assert writers, "an incomplete one is written again"
    for writer in writers:
        writer.kill()

    cached.archive.write_bytes(whole)
    note = cached.archive.with_suffix(class_archive.SIZE).read_text()
    before = cached.archive
    os.utime(cached.kernel, (1, 1))
    # In the place of the one that fits: Java finds out by itself.
    before.rename(cached.archive)
    cached.archive.with_suffix(class_archive.SIZE).write_text(note)
    run, log = cached.run()
    good(run)
    assert not from_archive(log)


def test_a_killed_writer_leaves_no_archive_and_the_next_removes_what_it_left(tmp_path: Path) -> None:
    cached = Cached(tmp_path)
    writer = [sys.executable, "-P", "-m", "keyfold.engine.jvm.archive_writer"]
    environment = {**ENVIRONMENT, "KEYFOLD_KERNEL_DIR": str(cached.cache)}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment}
    process = subprocess.Popen(writer, **quiet)  # type: ignore[call-overload]
    try:
        children = psutil.Process(process.pid).children
        assert wait_until(lambda: bool(children()) or process.poll() is not None, 120)
        [java] = children()
        assert subprocess.run(writer, **quiet, check=False, timeout=60).returncode == 0, "one is enough"  # type: ignore[call-overload]
    finally:
        process.kill()
        process.wait()
    assert wait_until(lambda: not java.is_running() or java.status() == psutil.STATUS_ZOMBIE, 120)
    assert not cached.archive.exists()
    assert list(cached.cache.glob(".classes-*"))
    with_no_disk = {**environment, "JAVA_HOME": "/nowhere"}
    subprocess.run(writer, **{**quiet, "env": with_no_disk}, check=False, timeout=60)  # type: ignore[call-overload]
    assert not list(cached.cache.glob(".classes-*"))


@pytest.mark.parametrize("launcher", ["direct", "spark-submit"])
def test_java_does_not_outlive_a_python_that_is_killed_while_it_comes_up(
    tmp_path: Path, launcher: str
) -> None:
    write(tmp_path / "shop.py", APP)
    build.kernel_jar(load().kernel_dir)
    process = subprocess.Popen(
        [*KEYFOLD, "run", "shop.py"],
        cwd=tmp_path,
        env={**ENVIRONMENT, "KEYFOLD_JVM_LAUNCHER": launcher},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    seen: dict[int, psutil.Process] = {}

    def starting() -> bool:
        seen.update({child.pid: child for child in psutil.Process(process.pid).children(recursive=True)})
        return bool(seen) or process.poll() is not None

    assert wait_until(starting, 120, pause=0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert seen
    assert wait_until(lambda: not any(alive(child) for child in seen.values()), 120)


def alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize(("words", "short"), [(["--drain"], True), ([], False)])
def test_only_a_short_run_does_without_the_optimizing_compiler(
    tmp_path: Path, words: list[str], short: bool
) -> None:
    write(tmp_path / "shop.py", APP)
    build.kernel_jar(load().kernel_dir)
    process = subprocess.Popen(
        [*KEYFOLD, "run", "shop.py", *words],
        cwd=tmp_path,
        env={**ENVIRONMENT, "SPARK_SUBMIT_OPTS": "-Dfrom=user"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    commands: list[list[str]] = []

    def started() -> bool:
        for child in psutil.Process(process.pid).children():
            with suppress(psutil.Error):
                commands.extend([words] if SPARK in (words := child.cmdline()) else [])
        return bool(commands) or process.poll() is not None

    try:
        assert wait_until(started, 120, pause=0.005)
    finally:
        process.kill()
        process.wait()
    assert (short_run.FIRST_TIER in commands[0]) is short
    if short:
        assert commands[0].index(short_run.FIRST_TIER) < commands[0].index("-Dfrom=user"), "the user's wins"
