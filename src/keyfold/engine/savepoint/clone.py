"""Makes another app of a savepoint: the same state and position, under another name or in another home."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from keyfold.engine.operations.files import send_files
from keyfold.engine.operations.kinds import CLONE
from keyfold.engine.savepoint import verify
from keyfold.engine.savepoint.capture import Progress, forget_sinks
from keyfold.engine.savepoint.manifest import Savepoint
from keyfold.engine.savepoint.savepoints import FILES, VIEW, Savepoints
from keyfold.engine.storage.contract import Storage
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.lease import Lease
from keyfold.engine.storage.spark_checkpoint import new_metadata
from keyfold.engine.storage.stored_app import StoredApp
from keyfold.errors import BadOption
from keyfold.views.stores import LOCAL


def clone(source: AppHome, name: str, target: AppHome, progress: Progress) -> Savepoint:
    """Creates the app of `target`, which must not exist, from a savepoint of another."""
    storage = Savepoints(source).storage(name)
    _require_new(target)
    lease = None
    try:
        with Savepoints(source).reading(name) as savepoint:
            verify.require_usable(savepoint)
            verify.require_whole(savepoint, storage, progress)
            lease = Lease(target).take()
            CLONE.finish(target)
            _require_new(target)
            CLONE.commit(target, {"savepoint": name, "of": source.path.name})
            files = [file.path for file in savepoint.files if file.path != "app.json"]
            send_files(storage.below(FILES), target.storage, {path: path for path in files})
            target.record_views(source.views_address)
            _copy_view(storage, savepoint, target)
            plan = Savepoints(source).plan(name)
        for file in savepoint.files:
            if file.path.endswith("/checkpoint/metadata"):
                target.storage.put(file.path, new_metadata())
        for table in savepoint.tables:
            forget_sinks(target, table)
        _put_plan(plan, target)
        target.storage.delete(CLONE.record)
    except Exception:
        if lease is not None:
            CLONE.finish(target)
        raise
    finally:
        if lease is not None:
            lease.release()
    return savepoint


def carry_out(home: AppHome, document: dict[str, Any]) -> None:
    """Removes what an interrupted clone has copied."""
    for name in ("tables", "streams", "app.json"):
        home.storage.delete(name)
    home.views.remove()
    home.record_views(LOCAL)


def _require_new(target: AppHome) -> None:
    found = target.storage.list()
    if "app.json" in found and CLONE.record not in found:
        raise BadOption(
            f"the home already has an app {target.path.name}",
            given=target.storage.uri().removeprefix("file://"),
            hint="another name, or another home: --to-home DIR",
        )


def _copy_view(storage: Storage, savepoint: Savepoint, target: AppHome) -> None:
    if savepoint.view is not None:
        with storage.fetch(VIEW) as copy:
            target.views.restore_from(copy)


def _put_plan(plan: StoredApp, target: AppHome) -> None:
    """The definitions under the new app's name."""
    name = target.path.name
    declared = None if plan.declared is None else {**plan.declared, "name": name}
    target.write_plan(replace(plan, app=name, declared=declared))
