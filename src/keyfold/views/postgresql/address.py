"""Addresses of databases: `postgresql://user@host:port/database`, kept without the password.

A home records the address alone. The password comes from the setting that named the store, in this process or
in `KEYFOLD_VIEWS`; or from what libpq knows itself: PGPASSWORD, or the file ~/.pgpass.
"""

from __future__ import annotations

import os
from typing import Final
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

SECRETS: Final = ("password", "sslpassword")
_known: dict[str, dict[str, str]] = {}


def without_password(setting: str) -> str:
    """The address that a home records; this process remembers what is left out."""
    address, secrets = split(setting)
    if secrets:
        _known[address] = secrets
    return address


def secrets_of(address: str) -> dict[str, str]:
    """The password of an address, if a setting has it."""
    if address in _known:
        return _known[address]
    found, secrets = split(os.environ.get("KEYFOLD_VIEWS", ""))
    return secrets if found == address else {}


def split(setting: str) -> tuple[str, dict[str, str]]:
    """The address without secrets, and the secrets by libpq's names.

    >>> split("postgresql://bob:s3@db:5432/views?sslmode=require")
    ('postgresql://bob@db:5432/views?sslmode=require', {'password': 's3'})
    """
    parts = urlsplit(setting)
    login, at, hosts = parts.netloc.rpartition("@")
    user, colon, password = login.partition(":")
    options = parse_qsl(parts.query, keep_blank_values=True)
    secrets = {name: value for name, value in options if name in SECRETS}
    if colon:
        secrets["password"] = unquote(password)
    public = urlencode([pair for pair in options if pair[0] not in SECRETS], safe="/:,")
    scheme = "postgresql" if parts.scheme == "postgres" else parts.scheme
    return f"{scheme}://{user}{at}{hosts}{parts.path}{'?' * bool(public)}{public}", secrets
