"""The store that has an app's views: `views.json` in its home, unless they are local files."""

from __future__ import annotations

import json
from typing import Final

from keyfold.engine.storage.contract import Storage
from keyfold.views.stores import LOCAL

_FILE: Final = "views.json"


def read(storage: Storage) -> str:
    """The address of the store, as the app's last start with views recorded it."""
    try:
        return str(json.loads(storage.read(_FILE))["address"])
    except (OSError, ValueError, LookupError, TypeError):
        return LOCAL


def record(storage: Storage, address: str) -> None:
    """Records the address, unless it is known."""
    if read(storage) == address:
        return
    if address == LOCAL:
        storage.delete(_FILE)
    else:
        storage.put(_FILE, json.dumps({"address": address}).encode())
