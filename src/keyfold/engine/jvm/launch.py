"""Starts the JVM, and connects PySpark to it once it is up.

PySpark would start it through spark-submit, with every setting on the command line, where all users of the
machine can read it. The settings go through a private file instead, which is removed when the JVM is up, and
`java` is started directly where that comes to the same.

A JVM takes a second or more to come up, in which Python can load modules: `Launch` starts it, and
`Launch.gateway` waits for it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from keyfold import private
from keyfold.engine.jvm import class_archive, py4j_log
from keyfold.engine.jvm.command import (
    JAVA_OPTIONS,
    MEMORY,
    SUBMIT_ARGUMENTS,
    environment,
    java_command,
    needs_spark_submit,
)
from keyfold.engine.jvm.process import END_SECONDS, Launched, how, remember
from keyfold.engine.jvm.scratch import Scratch
from keyfold.errors import JavaEnded
from keyfold.settings import Settings

_PORT: Final = "PYSPARK_GATEWAY_PORT"
_SECRET: Final = "PYSPARK_GATEWAY_SECRET"
_POLL_SECONDS: Final = 0.01
_CRASHES: Final = (-signal.SIGABRT, -signal.SIGBUS, -signal.SIGSEGV)
# Signals to the terminal's process group are for Python, which lets batches finish first.
_OWN_GROUP: Final[dict[str, Any]] = {"process_group": 0}


class Launch:
    """A JVM that is being started with the wanted settings."""

    def __init__(
        self,
        java: str,
        kernel: Path,
        wanted: Mapping[str, str],
        settings: Settings,
        place: Path | None,
        options: Sequence[str] = (),
    ) -> None:
        """`place`: the home in which its temporary files are; None for a directory of their own.

        `options`: of Java, which the user's override; not passed on to spark-submit.
        """
        self.wanted, self._java, self._kernel, self._options = dict(wanted), java, kernel, tuple(options)
        self._output = settings.local_directory / "java.log"
        self._launched = Launched.now(wanted[MEMORY], self._output, self._output.with_name("spark.log"))
        # Appended to, since another app of this home may be writing to it.
        self._file = private.open_private(self._output, "ab")
        self._begun = self._file.tell()
        self._scratch = Scratch(place)
        self._properties = self._scratch.path / "spark.properties"
        self._connection = self._scratch.path / "gateway"
        self._process: subprocess.Popen[bytes] | None = None
        self._archive: Path | None = None
        if settings.jvm_launcher == "direct" and not needs_spark_submit(wanted):
            self._archive = class_archive.find(java, kernel, settings)
            self._start()

    def _start(self) -> None:
        settings = with_scratch(self.wanted, self._scratch)
        private.write(self._properties, properties(settings).encode("ascii"))
        options = (*class_archive.options(self._archive), *self._options)
        self._process = subprocess.Popen(
            java_command(self._java, self._kernel, settings, self._properties, options),
            env=environment(self._connection),
            # The JVM reads it to its end, and then ends itself: it does not outlive this process.
            stdin=subprocess.PIPE,
            stdout=self._file,
            stderr=self._file,
            preexec_fn=_ignore_interrupts,
            **_OWN_GROUP,
            **self._scratch.inherited,
        )

    def gateway(self) -> Any:
        """Waits until the JVM is up, and connects PySpark to it."""
        py4j_log.quiet()
        try:
            gateway = self._connect() if self._process else self._through_spark_submit()
        except BaseException:
            self.discard()
            raise
        self._scratch.leave_to(gateway.jvm)
        self._close()
        remember(self._launched)
        return gateway

    def discard(self) -> None:
        """Ends a JVM that is not going to be used: it would wait forever."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._close()
        shutil.rmtree(self._scratch.path, ignore_errors=True)

    def _close(self) -> None:
        self._properties.unlink(missing_ok=True)
        self._file.close()
        self._scratch.__exit__()

    def _connect(self) -> Any:
        assert self._process is not None
        if not self._up(self._process) and self._archive and self._process.returncode in _CRASHES:
            # Perhaps because the archive is damaged.
            class_archive.remove(self._archive)
            self._archive = None
            self._start()
            self._up(self._process)
        if not self._connection.exists():
            raise self._end_error(self._process.returncode)
        gateway = _attach(*_connection_info(self._connection))
        self._connection.unlink()
        gateway.proc = self._process
        return gateway

    def _up(self, process: subprocess.Popen[bytes]) -> bool:
        """Whether the JVM came up; returns when it has, or has ended."""
        while not self._connection.exists():
            if process.poll() is not None:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def _through_spark_submit(self) -> Any:
        import psutil
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkRuntimeError
        from pyspark.java_gateway import launch_gateway

        launch: Callable[..., Any] = launch_gateway
        before = {child.pid for child in psutil.Process().children()}
        output = {"stdout": self._file, "stderr": self._file}
        try:
            with submitting(self.wanted, self._scratch):
                return launch(None, {**output, **_OWN_GROUP, **self._scratch.inherited})
        except (PySparkRuntimeError, Py4JError, ConnectionError) as error:
            raise self._end_error(_status(error)) from None
        except BaseException:
            # Interrupted while it starts, the JVM would wait forever for a connection.
            for child in psutil.Process().children():
                if child.pid not in before:
                    child.kill()
            raise

    def _end_error(self, status: int | None) -> JavaEnded:
        self._file.flush()
        printed = self._output.read_bytes()[self._begun :].decode("utf-8", "replace")
        return JavaEnded(
            f"Java ended before Spark was up: {how(status)}",
            given=_error_line(printed),
            hint=f"its output is in {self._output}; `keyfold doctor` checks for common causes",
        )


def _ignore_interrupts() -> None:
    """As PySpark does: an interrupt is for Python, which shuts the JVM down."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _connection_info(file: Path) -> tuple[int, str]:
    """The port and the secret, each number and length in four bytes."""
    content = file.read_bytes()
    length = int.from_bytes(content[4:8], "big")
    return int.from_bytes(content[:4], "big"), content[8 : 8 + length].decode()


def _attach(port: int, secret: str) -> Any:
    """PySpark's connection to a JVM that is up. PySpark finds one by these variables."""
    from pyspark.java_gateway import launch_gateway

    launch: Callable[..., Any] = launch_gateway
    os.environ.update({_PORT: str(port), _SECRET: secret})
    try:
        return launch()
    finally:
        del os.environ[_PORT], os.environ[_SECRET]


def _status(error: BaseException) -> int | None:
    """The exit status of a JVM that did not come up: PySpark leaves its process in no other place."""
    trace = error.__traceback__
    while trace is not None:
        process = trace.tb_frame.f_locals.get("proc")
        if process is not None:
            with suppress(subprocess.TimeoutExpired):
                return int(process.wait(END_SECONDS))
        trace = trace.tb_next
    return None


def _error_line(text: str) -> str | None:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("WARNING: ")]
    errors = [line for line in lines if "rror" in line or "xception" in line]
    return next(iter(errors or lines), None)


@contextmanager
def submitting(wanted: Mapping[str, str], scratch: Scratch) -> Iterator[None]:
    """Passes the settings to a JVM that spark-submit starts; its temporary files are in `scratch`."""
    file = scratch.path / "spark.properties"
    private.write(file, properties(with_scratch(wanted, scratch)).encode("ascii"))
    before = os.environ.get(SUBMIT_ARGUMENTS)
    # Spark's defaults and what the user has in the variable count as before.
    os.environ[SUBMIT_ARGUMENTS] = (
        f"--extra-properties-file {shlex.quote(str(file))} {before or 'pyspark-shell'}"
    )
    try:
        yield
    finally:
        os.environ.pop(SUBMIT_ARGUMENTS) if before is None else os.environ.update({SUBMIT_ARGUMENTS: before})
        file.unlink(missing_ok=True)


def with_scratch(wanted: Mapping[str, str], scratch: Scratch) -> dict[str, str]:
    """The settings, with places for temporary files; the user's own places win."""
    return {**_local_directory(wanted, scratch), **_temporary_directory(wanted, scratch)}


def _local_directory(wanted: Mapping[str, str], scratch: Scratch) -> dict[str, str]:
    """Of Spark's own files; executors on other machines have places of their own."""
    return {"spark.local.dir": str(scratch.path)} if wanted["spark.master"].startswith("local") else {}


def _temporary_directory(wanted: Mapping[str, str], scratch: Scratch) -> dict[str, str]:
    """Of libraries that Java unpacks and loads, which a file system may forbid."""
    if not scratch.runs_code:
        return dict(wanted)
    place = str(scratch.path).replace("\\", "\\\\").replace('"', '\\"')
    return {**wanted, JAVA_OPTIONS: f'-Djava.io.tmpdir="{place}" {wanted.get(JAVA_OPTIONS, "")}'.strip()}


def properties(settings: Mapping[str, str]) -> str:
    """The settings as a Java properties file, with escapes for all but plain characters.

    >>> properties({"spark.a b": "1=é"})
    'spark.a\\\\u0020b=1\\\\u003d\\\\u00e9\\n'
    """
    return "".join(f"{_escape(name)}={_escape(value)}\n" for name, value in settings.items())


def _escape(text: str) -> str:
    units = text.encode("utf-16-be", "surrogatepass")
    found = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    return "".join(
        chr(u) if u < 128 and (chr(u).isalnum() or chr(u) in ".-_/,") else f"\\u{u:04x}" for u in found
    )
