"""The tokens of a home, in its `tokens.json`: who may read it over HTTP, as what, and which tables.

A token is random, and the file has its SHA-256 alone. A revoked one stays in it, so that a home which once
asked for tokens does so until somebody removes the file.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal

from keyfold import private
from keyfold.engine.storage import files
from keyfold.engine.storage.audit import user
from keyfold.errors import BadOption, HomeUnusable, QueryError, choice, did_you_mean

Role = Literal["reader", "operator", "admin"]
ROLES: Final[tuple[Role, ...]] = ("reader", "operator", "admin")
"""Each may do what those before it may."""
FILE: Final = "tokens.json"
PREFIX: Final = "kf_"
"""With which every token begins, so that scanners for secrets find it."""
_SHA256: Final = re.compile("[0-9a-f]{64}")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Token:
    """A token, without its text."""

    name: str
    role: Role
    tables: tuple[str, ...] | None
    """The tables that it may read, as `app.table`; None for all."""
    sha256: str
    created: datetime
    expires: datetime | None
    by: str
    """The user who created it."""
    revoked: datetime | None = None

    @property
    def state(self) -> Literal["valid", "expired", "revoked"]:
        """Whether it still opens anything."""
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and datetime.now(UTC) >= self.expires else "valid"

    def document(self) -> dict[str, Any]:
        """The token for people and programs, without what could help to guess it."""
        found = {name: value for name, value in asdict(self).items() if name != "sha256"}
        return {**found, "state": self.state}


def digest(text: str) -> str:
    """What the file has of a token. It has 256 random bits, so that no slow hash is needed."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def read(home: Path) -> dict[str, Token]:
    """The tokens of a home by name; empty if none was ever created."""
    file = home / FILE
    try:
        if not file.exists() and not file.is_symlink():
            return {}
        found = json.loads(file.read_bytes())["tokens"]
        if not isinstance(found, list) or not found:
            # Revoked ones stay in it: an empty file is not one that was written here.
            raise ValueError("there are none in the file")
        return {one["name"]: _token(one) for one in found}
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        hint = "restore it from a backup, or remove it and create new tokens"
        raise HomeUnusable(f"the tokens can't be read: {error}", where=file, hint=hint) from None


def create(
    home: Path, name: str, role: str, tables: Sequence[str] | None, lasts: timedelta | None
) -> tuple[Token, str]:
    """Adds a token; its text is known only here."""
    if role not in ROLES:
        raise BadOption("unknown role", given=role, hint=did_you_mean(role, ROLES, choice(ROLES)))
    if not _NAME.fullmatch(name):
        hint = "letters, digits, dots, dashes and underscores, at most 64"
        raise BadOption("a token's name is not usable", given=name, hint=hint)
    checked = None if tables is None else tuple(dict.fromkeys(_table(one) for one in tables))
    text = PREFIX + secrets.token_urlsafe(32)
    now = datetime.now(UTC).replace(microsecond=0)
    expires = None if lasts is None else _after(now, lasts)
    with _changing(home) as known:
        if name in known and known[name].state == "valid":
            hint = f"another name, or first: keyfold token revoke {name}"
            raise BadOption(f"there is a token {name} already", where=home / FILE, hint=hint)
        made = known[name] = Token(name, _role(role), checked, digest(text), now, expires, user())
    return made, text


def revoke(home: Path, name: str) -> Token:
    """Ends a token for good; servers notice within a second."""
    with _changing(home) as known:
        if name not in known:
            hint = did_you_mean(name, known, choice(known) if known else "keyfold token create NAME")
            raise QueryError(f"no token {name}", reason="not_found", where=home / FILE, hint=hint)
        if known[name].revoked is None:
            known[name] = replace(known[name], revoked=datetime.now(UTC).replace(microsecond=0))
        return known[name]


def _table(given: str) -> str:
    app, dot, table = given.strip().partition(".")
    if not dot or not app or not table or "." in table or "*" in given:
        hint = "app.table, such as shop.totals; several with commas; without --tables all"
        raise BadOption("a token's tables are named with their app", given=given, hint=hint)
    return f"{app}.{table}"


def _after(now: datetime, lasts: timedelta) -> datetime:
    try:
        return now + lasts
    except OverflowError:
        given, hint = f"{lasts.days:,} days", "30d; or without --expires, until it is revoked"
        raise BadOption("a token can't last so long", where="--expires", given=given, hint=hint) from None


def _role(given: str) -> Role:
    for one in ROLES:
        if one == given:
            return one
    raise ValueError(f"unknown role {given!r}")


@contextmanager
def _changing(home: Path) -> Iterator[dict[str, Token]]:
    """The tokens, written at the end; one process at a time."""
    private.directory(home)
    with private.open_private(home / f".{FILE}.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = read(home)
        yield known
        document = {"tokens": [_entry(one) for one in known.values()]}
        files.replace_file(home / FILE, json.dumps(document, ensure_ascii=False, indent=1).encode())


def _entry(token: Token) -> dict[str, Any]:
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in asdict(token).items()
    }


def _token(found: Mapping[str, Any]) -> Token:
    tables, name, sha256 = found["tables"], found["name"], found["sha256"]
    if not isinstance(name, str) or not (tables is None or isinstance(tables, list)):
        raise ValueError(f"not a token: {name!r}")
    if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
        raise ValueError(f"token {name} has no SHA-256")
    return Token(
        name,
        _role(found["role"]),
        None if tables is None else tuple(str(one) for one in tables),
        sha256,
        _moment(found["created"]),
        None if found["expires"] is None else _moment(found["expires"]),
        found["by"],
        None if found["revoked"] is None else _moment(found["revoked"]),
    )


def _moment(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(f"a time without its offset from UTC: {text}")
    return found
