"""Whether the lease of another process has ended: it was released, its process is gone, or it fell silent."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from keyfold.engine.polling import wait_until
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.lease_files import LeaseFile, LeaseFiles, LeaseRecord
from keyfold.engine.storage.processes import alive, end_orphan, same_host
from keyfold.errors import HomeLocked

ORPHAN_SECONDS = 10.0
# Fraction of a holder's lease time that others wait for its heartbeat: clocks run at unequal speed.
_WAITED_FOR: Final = 1.1


class Takeover:
    """A look, from one host, at the holder of an app's home."""

    def __init__(
        self, home: AppHome, files: LeaseFiles, host: Mapping[str, Any], seconds: float, *, command: bool
    ) -> None:
        """`seconds`: the lease time of a holder that does not record it. `command`: no app runs here."""
        self._home, self._files, self._host, self._seconds = home, files, host, seconds
        self._command = command

    def is_over(self, last: LeaseFile) -> bool:
        """Whether the home is free; False if the lease has changed meanwhile.

        Raises `HomeLocked` if the home is held. Ends a JVM that the last holder left on this host.
        """
        record = last.record
        if last.released:
            return True
        if record is not None and same_host(record.host, self._host):
            if alive(record.python):
                raise self._locked_error(record, here=True)
            end_orphan(record.jvm, ORPHAN_SECONDS)
            return True
        return self._is_silent(last)

    def _is_silent(self, last: LeaseFile) -> bool:
        """Whether a holder on another host lets its lease time pass without a heartbeat."""
        seconds = last.seconds_or(self._seconds)
        if not wait_until(lambda: self._has_moved(last), seconds * _WAITED_FOR, pause=min(seconds / 20, 1.0)):
            return True
        now = self._files.newest()
        if now is not None and now.epoch == last.epoch and now.record is not None and not now.released:
            raise self._locked_error(now.record, here=False)
        return False

    def _has_moved(self, last: LeaseFile) -> bool:
        return self._files.newest_epoch() != last.epoch or self._files.read(last.epoch) != last

    def _locked_error(self, record: LeaseRecord, *, here: bool) -> HomeLocked:
        place, pid = self._home.shown, record.python["pid"]
        if self._command:
            return must_be_stopped(self._home, record, here=here)
        if here and pid == os.getpid():
            return HomeLocked(
                f"this process already runs {self._home.path.name}",
                given=place,
                hint="use the handle that the first start returned, or call its stop() before the next "
                "start; `with app.start() as handle:` does that at its end",
            )
        error = HomeLocked(
            f"another process holds {place}",
            given=f"pid {pid}" if here else str(record),
            hint="stop it, or use another home (--home DIR)",
        )
        # Only a holder that runs queries names its JVM; a command, or a start that may still fail, will end.
        error.passes = record.jvm is None
        return error


def must_be_stopped(home: AppHome, record: LeaseRecord, *, here: bool, or_else: str = "") -> HomeLocked:
    """The error of a command that needs a stopped app; `or_else`: what can be done while it runs."""
    app = home.path.name
    # A holder names its JVM once it runs queries; commands never do.
    who = f"{app} is running" if record.jvm is not None else f"another command, or a start, holds {app}"
    first = "stop it first" if record.jvm is not None else "stop it first, or wait until it has ended"
    return HomeLocked(
        f"{who}, and this command needs the app stopped",
        given=f"pid {record.python['pid']}" if here else str(record),
        hint=f"{first}; or {or_else}" if or_else else first,
    )
