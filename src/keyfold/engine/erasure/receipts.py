"""Receipts for erasures, signed with a key of the app's home.

The signature is an HMAC-SHA256 with `receipts/key`, 32 random bytes generated for the first receipt: it shows
that the holder of the home wrote the receipt and that it has not been changed since. The audit log has the
receipt's hash, so that a withdrawn receipt shows too.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from typing import Any, Final

from keyfold.engine.storage.contract import Storage
from keyfold.errors import BadOption

DIRECTORY: Final = "receipts"
_KEY: Final = f"{DIRECTORY}/key"
_SIGNATURE: Final = "signature"


def sign(storage: Storage, receipt: Mapping[str, Any]) -> dict[str, Any]:
    """A receipt with its signature; the caller holds the home."""
    made = _keyed_hash(storage, _content(receipt))
    return {**receipt, _SIGNATURE: {"algorithm": "HMAC-SHA256", "key": _KEY, "value": made}}


def is_genuine(storage: Storage, receipt: Mapping[str, Any]) -> bool:
    """Whether this home has signed exactly this receipt."""
    given = receipt.get(_SIGNATURE)
    if not isinstance(given, Mapping) or "key" not in storage.list(DIRECTORY):
        return False
    return hmac.compare_digest(_keyed_hash(storage, _content(receipt)), str(given.get("value")))


def digest(receipt: Mapping[str, Any]) -> str:
    """The hash of a receipt, for the audit log."""
    return hashlib.sha256(_content(receipt)).hexdigest()


def of_key(storage: Storage, names: tuple[str, ...], values: tuple[str, ...]) -> str:
    """A keyed hash of the key, which only reveals it to someone who has the home and guesses the key."""
    return _keyed_hash(storage, json.dumps([list(names), list(values)], ensure_ascii=False).encode())


def _keyed_hash(storage: Storage, content: bytes) -> str:
    """The hash of a content with the home's own key, which the first one creates."""
    if "key" not in storage.list(DIRECTORY):
        storage.put_new(_KEY, secrets.token_bytes(32))
    return hmac.new(storage.read(_KEY), content, hashlib.sha256).hexdigest()


def parse(content: bytes, file: object) -> dict[str, Any]:
    """The receipt in a file's content."""
    try:
        found = json.loads(content)
    except ValueError:
        found = None
    if not isinstance(found, dict) or _SIGNATURE not in found:
        raise BadOption(f"{file} is not a receipt", given=file, hint="what keyfold forget --json has printed")
    return found


def _content(receipt: Mapping[str, Any]) -> bytes:
    plain = {name: value for name, value in receipt.items() if name != _SIGNATURE}
    return json.dumps(plain, sort_keys=True, ensure_ascii=False).encode()
