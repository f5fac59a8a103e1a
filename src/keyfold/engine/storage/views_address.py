"""The store that has an app's views: `views.json` in its home, unless they are local files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from keyfold.engine.storage.contract import Storage
from keyfold.engine.storage.files import replace_file
from keyfold.views.stores import LOCAL

_FILE: Final = "views.json"


def read(storage: Storage) -> str:
    """The address of the store, as the app's last start with views recorded it."""
    try:
        return str(json.loads(storage.read(_FILE))["address"])
    except (OSError, ValueError, LookupError, TypeError):
        return LOCAL


def record(storage: Storage, address: str, copy: Path | None) -> None:
    """Records the address, also in a directory of local files, for commands that do not open the home."""
    if address == LOCAL:
        storage.delete(_FILE)
        if copy is not None:
            (copy / _FILE).unlink(missing_ok=True)
        return
    content = json.dumps({"address": address}).encode()
    storage.put(_FILE, content)
    if copy is not None:
        replace_file(copy / _FILE, content)
