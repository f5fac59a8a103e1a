"""A PostgreSQL server on loopback, for tests: one per process, in a directory of its own."""

from __future__ import annotations

import getpass
import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final

import psutil

from keyfold.engine.polling import wait_until
from tests.ports import free_port

# Nothing here has to outlive the machine: no flushing to disk, and little memory.
_SETTINGS: Final = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "on",
    "listen_addresses": "127.0.0.1",
    "shared_buffers": "32MB",
    "max_connections": "60",
    "autovacuum": "off",
    "timezone": "Asia/Kolkata",
    "datestyle": "German",
    "lc_messages": "C",
}
# Words are sorted as people do it, unlike in views.
_LOCALE: Final = ("-E", "UTF8", "--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en-US")
SECURED: Final = "secured"
"""The role whose password is asked for."""
PASSWORD: Final = "s3 cret"
_ACCESS: Final = f"""
host all {SECURED} 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust
"""


def programs() -> Path | None:
    """The directory of the newest server's programs that are installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else None


class Server:
    """A server that can be stopped, killed and started again."""

    def __init__(self, bin: Path, directory: Path) -> None:
        self._bin, self.data, self.port = bin, directory / "data", free_port()
        self._log = directory / "log"
        # A server refuses to run as root.
        self._user: dict[str, Any] = {}
        if os.getuid() == 0:
            owner = pwd.getpwnam("postgres")
            os.chown(directory, owner.pw_uid, owner.pw_gid)
            _let_others_pass(directory)
            self._user = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
        self.admin = "postgres" if self._user else getpass.getuser()
        self._process: subprocess.Popen[bytes] | None = None
        self._run("initdb", "-D", self.data, "-A", "trust", "-N", "-U", self.admin, *_LOCALE)
        (self.data / "pg_hba.conf").write_text(_ACCESS)

    def address(self, user: str | None = None, database: str = "postgres") -> str:
        """The address of a database."""
        return f"postgresql://{user or self.admin}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Starts the server and waits until it answers."""
        options = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [self._bin / "postgres", "-D", self.data, "-p", str(self.port), "-k", self.data, *options],
                stdout=log,
                stderr=log,
                cwd="/",
                **self._user,
            )
        process = self._process
        assert wait_until(lambda: process.poll() is not None or self._answers(), 60)
        assert process.poll() is None, self._log.read_text()[-3000:]

    @property
    def runs(self) -> bool:
        """Whether it has been started, and neither stopped nor killed."""
        return self._process is not None

    def stop(self) -> None:
        """Stops the server; sessions are ended."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(30)
            self._process = None

    def kill(self) -> None:
        """Kills the server and all of its sessions."""
        assert self._process is not None
        server = psutil.Process(self._process.pid)
        # Otherwise it would replace the processes that are killed first.
        server.suspend()
        children = server.children(recursive=True)
        for one in (server, *children):
            with suppress(psutil.NoSuchProcess):
                one.kill()
        psutil.wait_procs(children, timeout=30)
        self._process.wait(30)
        self._process = None

    def sql(self, *statements: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Runs statements as the administrator; the rows of the last."""
        import psycopg

        options = "-c DateStyle=ISO -c TimeZone=UTC"
        with psycopg.connect(self.address(database=database), autocommit=True, options=options) as connection:
            cursor = connection.cursor()
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def _answers(self) -> bool:
        command = [self._bin / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(command).returncode == 0

    def _run(self, program: str, *arguments: str | Path) -> None:
        done = subprocess.run(
            [self._bin / program, *arguments], capture_output=True, text=True, cwd="/", **self._user
        )
        assert done.returncode == 0, done.stdout + done.stderr


def _let_others_pass(directory: Path) -> None:
    """Lets other users through the directories above: that of temporary files may be root's alone."""
    for parent in directory.parents:
        mode = parent.stat().st_mode
        if not mode & 0o001:
            parent.chmod(mode | 0o001)


@contextmanager
def running() -> Iterator[Server]:
    """A server that runs for a while."""
    bin = programs()
    assert bin is not None
    directory = Path(mkdtemp(prefix="keyfold-postgres-"))
    try:
        server = Server(bin, directory)
        server.start()
        try:
            server.sql(f"CREATE ROLE {SECURED} LOGIN PASSWORD '{PASSWORD}'")
            server.sql(f"GRANT CREATE ON DATABASE postgres TO {SECURED}")
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(directory)
