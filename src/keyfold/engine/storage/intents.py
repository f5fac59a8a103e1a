"""What a command records before it changes anything, so that whoever comes after a kill can finish it.

Most prepare files first, which then take the place of others. The record lists them: it is carried out if all
of them are there. They are copied, not moved, so that they are there until it is done.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from keyfold.engine.storage.contract import Storage
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import HomeUnusable

_PREPARED: Final = "prepared"
"""What a record has beside the document: the directory, its files, and whether carrying it out has begun."""


def recorded(storage: Storage, name: str) -> dict[str, Any] | None:
    """The document that a command has written; None if there is none."""
    try:
        found: dict[str, Any] = json.loads(storage.read(name))
    except FileNotFoundError:
        return None
    return found


def record(
    storage: Storage,
    name: str,
    document: dict[str, Any],
    prepared: str | None = None,
    files: Iterable[str] | None = None,
) -> None:
    """Writes what is certain from here on. `prepared`: a directory, all or some files of which it needs."""
    if prepared is not None:
        names = [file.name for file in storage.files(prepared)] if files is None else list(files)
        document = {**document, _PREPARED: {"directory": prepared, "files": names, "begun": False}}
    _put(storage, name, document)


def begun(place: AppHome, name: str, directory: str) -> dict[str, Any] | None:
    """A recorded document that is about to be carried out, perhaps again; None if there is none.

    Refuses one whose prepared files are missing, before anything is replaced. `directory`: where one that an
    older version of keyfold has recorded has them.
    """
    document = recorded(place.storage, name)
    if document is None:
        return None
    known = document.pop(_PREPARED, None)
    if known is None:
        _require(place, name, document, {"directory": directory, "begun": True}, _none_in(place, directory))
        return document
    there = {file.name for file in place.storage.files(known["directory"])}
    _require(place, name, document, known, [file for file in known["files"] if file not in there])
    if not known["begun"]:
        _put(place.storage, name, {**document, _PREPARED: {**known, "begun": True}})
    return document


def _none_in(place: AppHome, directory: str) -> list[str]:
    return [] if place.storage.files(directory) else ["all of them"]


def _require(
    place: AppHome, name: str, document: dict[str, Any], known: dict[str, Any], missing: list[str]
) -> None:
    if not missing:
        return
    entry = document.get("entry") or document.get("audit") or document
    what, directory = entry["what"], f"{place.shown}/{known['directory']}"
    hint = f"restore {directory} from a backup of the home"
    if not known["begun"]:
        hint += f"; or withdraw the {what}, of which nothing was carried out: delete {place.shown}/{name}"
    more = f", and {len(missing) - 1:,} more" if len(missing) > 1 else ""
    raise HomeUnusable(
        f"the {what} of {place.path.name} ({', '.join(entry['tables'])}) was interrupted, and can't be "
        f"finished: files are missing that it has prepared in {directory}; nothing was changed",
        given=f"{missing[0]}{more}",
        hint=hint,
    )


def _put(storage: Storage, name: str, document: dict[str, Any]) -> None:
    storage.put(name, json.dumps(document, ensure_ascii=False).encode())
