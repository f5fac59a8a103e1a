"""`TokenReader`: finds the token that somebody shows, and notices new and revoked ones meanwhile."""

from __future__ import annotations

import hmac
import os
import threading
import time
from pathlib import Path
from typing import Final

from keyfold.engine.storage import tokens
from keyfold.engine.storage.tokens import Token

# A revoked token opens nothing after that.
_LOOK_SECONDS: Final = 0.5


def tokens_of(home: Path) -> list[Token]:
    """The tokens of a home that still open something."""
    return [one for one in tokens.read(home).values() if one.state == "valid"]


class TokenReader:
    """The tokens of a home. Thread-safe; the file is looked at now and then, not for each request."""

    def __init__(self, home: Path) -> None:
        self._home, self._file = home, home / tokens.FILE
        self._lock = threading.Lock()
        self._looked = -_LOOK_SECONDS
        self._version: object = None
        self._known: tuple[Token, ...] = ()
        self._had_some = False

    @property
    def any(self) -> bool:
        """Whether the home has tokens, also revoked ones, or had some since this reads it.

        A file that goes away, with a mount or by mistake, opens nothing: that takes a new start.
        """
        return bool(self._tokens()) or self._had_some

    def find(self, text: str) -> Token | None:
        """The token of a text, also one that no longer opens anything."""
        shown, found = tokens.digest(text), None
        for token in self._tokens():
            # All are compared, each in constant time: how long it takes says nothing.
            if hmac.compare_digest(token.sha256, shown):
                found = token
        return found

    def _tokens(self) -> tuple[Token, ...]:
        if time.monotonic() - self._looked < _LOOK_SECONDS:
            return self._known
        with self._lock:
            version = self._stat()
            if version != self._version:
                # An error leaves the version as it was, so that the next request meets it too.
                self._known = tuple(tokens.read(self._home).values())
                self._version = version
                self._had_some = self._had_some or bool(self._known)
            self._looked = time.monotonic()
            return self._known

    def _stat(self) -> object:
        try:
            if not os.path.lexists(self._file):
                return "missing"
            found = os.stat(self._file)
        except OSError:
            # Reading it says why.
            return object()
        return found.st_ino, found.st_mtime_ns, found.st_size
