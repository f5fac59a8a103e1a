"""A savepoint as one file: a tar archive that begins with the manifest."""

from __future__ import annotations

import hashlib
import io
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO

from keyfold import private
from keyfold.engine.operations.files import flush_directories
from keyfold.engine.savepoint import deletion, importing, verify
from keyfold.engine.savepoint import manifest as manifests
from keyfold.engine.savepoint.capture import Progress, name_taken
from keyfold.engine.savepoint.manifest import FILE, SavedFile, Savepoint
from keyfold.engine.savepoint.savepoints import FILES, Savepoints, checked_name
from keyfold.engine.storage.contract import Storage
from keyfold.engine.storage.files import rename_durably, temporary_beside
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import BadOption, SavepointUnusable
from keyfold.fault_points import FaultPoint, reached


def export(home: AppHome, name: str, target: Path, progress: Progress) -> Savepoint:
    """Writes a savepoint into one file, which must not exist."""
    if target.exists():
        raise BadOption("the file already exists", given=target, hint="another name")
    if not target.parent.is_dir():
        raise BadOption(
            f"{target.parent} is not a directory", given=target, hint="create it, or another path"
        )
    temporary = temporary_beside(target)
    try:
        with Savepoints(home).reading(name) as savepoint:
            storage = Savepoints(home).storage(name)
            verify.require_whole(savepoint, storage, progress)
            _write(temporary, savepoint, storage, progress)
        rename_durably(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    return savepoint


def _write(file: Path, savepoint: Savepoint, storage: Storage, progress: Progress) -> None:
    with private.open_private(file, "wb") as out, tarfile.open(fileobj=out, mode="w") as tar:
        content = savepoint.encode()
        tar.addfile(_member(FILE, len(content)), io.BytesIO(content))
        members = _members(savepoint)
        for number, (member, saved) in enumerate(members.items(), 1):
            with storage.fetch(member) as path, path.open("rb") as source:
                tar.addfile(_member(member, saved.bytes), source)
            progress("written", number, len(members))


def read(source: Path) -> Savepoint:
    """The manifest at the beginning of an archive."""
    with _open(source) as tar:
        return _manifest(tar, source)


def put(
    source: Path,
    home: AppHome,
    name: str | None,
    progress: Progress,
    why: str | None = None,
    *,
    held: bool = True,
) -> Savepoint:
    """Imports a savepoint from an archive, under its own name or another.

    `held`: whether this process holds the home; otherwise a running app does.
    """
    with _open(source) as tar:
        savepoint = _manifest(tar, source)
        savepoint = replace(savepoint, name=checked_name(name or savepoint.name))
        verify.require_usable(savepoint)
        savepoints = Savepoints(home)
        if savepoint.name in savepoints.names():
            raise name_taken(savepoint.app, savepoint.name)
        deletion.require_none(home, savepoint.name)
        # Left by an interrupted import; others may be in progress, since the app may be running.
        importing.discard(home, savepoint.name)
        home.storage.delete(f"savepoints/{savepoint.name}")
        members = _members(savepoint)
        storage, left = savepoints.storage(savepoint.name), dict(members)
        try:
            while left and (found := tar.next()) is not None:
                file = left.pop(found.name, None)
                content = tar.extractfile(found) if found.isfile() else None
                if file is None or content is None:
                    raise _damage_error(source, f"{found.name} is not part of the savepoint")
                with _verify(source, content, file) as path:
                    storage.send(path, found.name)
                progress("read", len(members) - len(left), len(members))
            if left:
                raise _damage_error(source, f"{next(iter(left))} is missing")
            flush_directories(storage, members)
            entry = importing.record(home, savepoint, source, why)
            if not savepoints.add(savepoint):
                importing.discard(home, savepoint.name)
                raise name_taken(savepoint.app, savepoint.name)
            reached(FaultPoint.SAVEPOINT_ADDED, name=savepoint.name)
        except BaseException:
            if savepoint.name not in savepoints.names():
                importing.discard(home, savepoint.name)
                home.storage.delete(f"savepoints/{savepoint.name}")
            raise
    importing.complete(home, entry, held=held)
    return savepoint


@contextmanager
def _verify(source: Path, content: IO[bytes], file: SavedFile) -> Iterator[Path]:
    """The content as a file, if it matches the manifest."""
    with tempfile.TemporaryDirectory(prefix="keyfold-import-") as directory:
        path = Path(directory) / "file"
        with path.open("wb") as out:
            shutil.copyfileobj(content, out, 1 << 20)
        with path.open("rb") as written:
            if hashlib.file_digest(written, "sha256").hexdigest() != file.sha256:
                raise _damage_error(source, f"{file.path} was altered")
        yield path


def _members(savepoint: Savepoint) -> dict[str, SavedFile]:
    """The files of a savepoint by their names in its directory."""
    found = {f"{FILES}/{file.path}": file for file in savepoint.files}
    return found if savepoint.view is None else {savepoint.view.path: savepoint.view, **found}


def _member(name: str, size: int) -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.size, found.mode = size, private.FILE
    return found


@contextmanager
def _open(source: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(source, mode="r:") as tar:
            yield tar
    except FileNotFoundError:
        raise BadOption(
            "there is no such file", given=source, hint="the file of a savepoint export"
        ) from None
    except tarfile.TarError as error:
        raise _damage_error(source, f"it can't be read: {error}") from None


def _manifest(tar: tarfile.TarFile, source: Path) -> Savepoint:
    first = tar.next()
    content = None if first is None or first.name != FILE else tar.extractfile(first)
    if content is None:
        raise _damage_error(source, f"it does not begin with {FILE}")
    return manifests.decode(content.read(), source)


def _damage_error(source: Path, why: str) -> SavepointUnusable:
    return SavepointUnusable(
        f"{source} is not a complete savepoint: {why}; nothing was changed",
        given=source,
        hint="copy the file again, or export the savepoint again",
    )
