"""Whether the log of a stream fits the stream's declaration, and is complete."""

from __future__ import annotations

from keyfold.engine.compile.stream import CompiledStream
from keyfold.engine.recovery import damage, definition_check
from keyfold.engine.sources import file_names
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.stored_app import StoredApp, StoredLog
from keyfold.errors import StateMismatch


def check(app: str, stored: StoredApp, compiled: CompiledStream, home: AppHome) -> None:
    """Refuses a definition that does not fit the log, and an incomplete checkpoint."""
    table_home = home.stream_home(compiled.spec.name)
    damage.check(app, compiled.spec.name, table_home, stateful=False)
    definition_check.check_log(compiled, table_home)
    if table_home.planned_batch() is None:
        return
    old = stored.log(compiled.spec.name)
    _refuse_other_types(old, compiled)
    definition_check.refuse_lost_logs(compiled, table_home)
    file_names.check(compiled.name, compiled.spec.site, old.directories, compiled.files, table_home.spark)


def _refuse_other_types(stored: StoredLog, compiled: CompiledStream) -> None:
    """Refuses columns whose types differ from the log's, which could not be read back."""
    before, now = stored.columns, compiled.columns
    changed = [f"{n}: {before[n]} on disk, {now[n]} now" for n in now if before.get(n, now[n]) != now[n]]
    if changed:
        raise StateMismatch(
            f"the log of stream {compiled.name} was written with other types; nothing was changed",
            where=compiled.spec.site,
            given="\n".join(changed),
            hint="go back to the old types, and cast in .select(...); or `keyfold reset "
            f"{compiled.name} --with-readers`, after which the stream and its tables start over",
        )
