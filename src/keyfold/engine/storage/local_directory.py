"""The directory of the driver's own files, which can be lost: views, status and logs.

That is the home, unless the setting `local` names another directory. The app's home then records it in
`local.json`, so that commands find the views, and the directory records its home, so that two homes with apps
of the same name do not share a view.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from keyfold import private
from keyfold.engine.storage.contract import Storage
from keyfold.engine.storage.files import replace_file
from keyfold.errors import HomeUnusable

_POINTER: Final = "local.json"
OWNER: Final = "home.json"
"""The record, in a directory of local files, of the home it belongs to."""


def local_directory(storage: Storage, default: Path) -> Path:
    """The directory of an app's local files, as its last start recorded it."""
    try:
        return Path(json.loads(storage.read(_POINTER))["path"])
    except (OSError, ValueError, LookupError, TypeError):
        return default


def use_local_directory(storage: Storage, default: Path, wanted: Path | None) -> None:
    """Assigns a directory to an app's local files; None: the app's home itself."""
    if wanted is None or wanted.resolve() == default:
        storage.delete(_POINTER)
        return
    claim(wanted.resolve(), storage)
    storage.put(_POINTER, json.dumps({"path": str(wanted.resolve())}).encode())


def claim(path: Path, storage: Storage) -> None:
    """Assigns a directory to the local files of the app in a storage, unless it belongs to another app."""
    try:
        private.directory(path)
        private.tighten(path)
        _refuse_other_owner(path, storage.uri())
        replace_file(path / OWNER, json.dumps({"home": storage.uri()}).encode())
    except OSError as error:
        raise HomeUnusable(
            f"the directory of local files can't be written: {error.strerror}",
            given=path,
            hint="another directory: local=..., or KEYFOLD_LOCAL",
        ) from None


def owner(path: Path) -> str | None:
    """The home whose local files are in a directory; None if it has no such files."""
    try:
        return str(json.loads((path / OWNER).read_bytes())["home"])
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, LookupError, TypeError):
        return "?"


def _refuse_other_owner(path: Path, home: str) -> None:
    if (found := owner(path)) not in (None, home):
        raise HomeUnusable(
            "the directory of local files belongs to an app in another home",
            given=f"{path}, of {found}",
            hint="another directory: local=..., or KEYFOLD_LOCAL; or delete this one: views are rebuilt "
            "from the log or the state",
        )
