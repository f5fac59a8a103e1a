"""Turns SIGINT, SIGTERM and SIGHUP into a request to stop after the current batch."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any


class Stopping:
    """Whether a stop was requested. Until `up` is called a signal interrupts the start."""

    def __init__(self, when: str = " after the current batch") -> None:
        self._when = when
        self.asked = threading.Event()
        self.number: int | None = None
        self._starting = True
        self.drawn = False
        """Whether a live screen is being drawn, which other output would spoil."""
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stopping:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            before = signal.getsignal(number)
            # nohup ignores it on purpose.
            if number != signal.SIGHUP or before != signal.SIG_IGN:
                self._before[number] = before
                signal.signal(number, self._receive)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def up(self) -> None:
        """From now on a signal lets the current batch finish."""
        self._starting = False

    def check(self) -> None:
        """Interrupts the start again if it was to be.

        Python drops an exception that a signal raises in a callback of its own, as at the end of an import.
        """
        if self._starting and self.asked.is_set():
            raise KeyboardInterrupt

    def _receive(self, number: int, frame: FrameType | None) -> None:
        again = self.asked.is_set()
        self.number = self.number or number
        self.asked.set()
        if self._starting:
            raise KeyboardInterrupt
        if self.drawn:
            return
        self.say(again)

    def say(self, again: bool = False) -> None:
        """Prints that a stop was requested."""
        name = signal.Signals(self.number or signal.SIGINT).name
        text = _WAITING if again else f"keyfold: {name}: stopping{self._when}\n"
        # Directly to the descriptor: the signal may have interrupted a print, or the terminal may be gone.
        with suppress(OSError):
            os.write(2, text.encode())


_WAITING = "keyfold: still waiting for the current batch, so that no work is lost\n"
