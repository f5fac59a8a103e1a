"""The life of an app that is being written: started again in the same JVM whenever its files change."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from keyfold.cli import output
from keyfold.cli.app.check import empty_feeds, findings_of
from keyfold.cli.app.loader import Loaded, beside, by_value, load
from keyfold.cli.app.source_files import SourceFiles
from keyfold.cli.main import Interrupted, text_of
from keyfold.cli.running import run_loop
from keyfold.cli.running.signals import Stopping
from keyfold.errors import HomeLocked

if TYPE_CHECKING:
    from keyfold.engine.handle import Handle
    from keyfold.plan.nodes import AppSpec

_LOOK_SECONDS: Final = 0.1


class Development:
    """Starts an app, and starts it again when its files change, until a signal."""

    def __init__(self, target: str, home: Path, *, keep: bool) -> None:
        """`keep`: a start resumes from the state of the one before, instead of reading all input again."""
        self._target, self._home, self._keep = target, home, keep
        self._loaded = load(target)
        beside(self._loaded)
        self._files = SourceFiles(self._loaded.path)
        self._changed: Loaded | None = None
        self._spark: Any = None
        self._running = False
        self._starts = 0
        self._status: dict[str, Any] = {}

    def run(self) -> dict[str, Any]:
        """Returns after a signal: the last status of the app that ran last, and how often one was started."""
        from keyfold.engine.jvm import class_archive, process

        with Stopping() as stopping, output.warnings_said(), process.ending_java():
            while not stopping.asked.is_set():
                self._run_once(stopping)
                while not self._reload() and not stopping.asked.wait(_LOOK_SECONDS):
                    pass
                self._loaded, self._changed = self._changed or self._loaded, None
        class_archive.write_missing()
        spec = self._loaded.app.spec()
        none = {"app": spec.name, "home": str(self._home.resolve() / spec.name), "tables": {}}
        return {**(self._status or none), "starts": self._starts, "ended": "signal"}

    def _run_once(self, stopping: Stopping) -> None:
        """Runs the app until a changed one is loaded, or this one fails."""
        begun = time.monotonic()
        name, handle = self._loaded.path.name, None
        spec = self._loaded.app.spec()
        try:
            handle = run_loop.start_app(spec, name, self._home, {}, stopping, self._send_modules, brief=True)
            self._spark, self._running = handle.spark, True
            self._starts += 1
            output.say(f"ready in {time.monotonic() - begun:.1f} s; restarts when {name} changes")
            if not self._keep:
                output.say(f"read its tables with: keyfold rows {spec.name}.TABLE --home {self._home}")
            run_loop.wait_until_end(handle, stopping, over=self._reload, look=_LOOK_SECONDS)
        except (Interrupted, HomeLocked):
            raise
        except Exception as error:
            output.error(text_of(error))
            output.say(f"nothing is running; waiting until {name} changes")
        finally:
            self._running = False
            self._stop(handle)

    def _send_modules(self) -> None:
        """Python workers outlive a start, and would go on with the modules they have imported."""
        for module in self._files.modules():
            by_value(module)

    def _stop(self, handle: Handle | None) -> None:
        try:
            if handle is not None:
                handle.stop()
                self._status = handle.status()
        except Exception as error:
            output.error(text_of(error))
        if not self._keep:
            shutil.rmtree(self._home / self._loaded.app.spec().name, ignore_errors=True)

    def _reload(self) -> bool:
        """Whether the files have changed and hold an app that Spark accepts; if not, says why."""
        if self._changed is None and self._files.changed():
            self._files.unload()
            if errors := self._load_changed():
                for error in errors:
                    output.error(text_of(error))
                state = (
                    f"{self._loaded.app.name} keeps running unchanged"
                    if self._running
                    else "nothing is running"
                )
                output.say(f"{state}; waiting until {self._loaded.path.name} changes")
            self._files.note()
        return self._changed is not None

    def _load_changed(self) -> list[Exception]:
        """Loads the changed app, unless it has errors. The app that runs is not touched."""
        try:
            loaded = load(self._target)
            errors = self._refusals(loaded.app.spec()) if self._running else []
        except Exception as error:
            return [error]
        if not errors:
            self._changed = loaded
        return errors

    def _refusals(self, spec: AppSpec) -> list[Exception]:
        """What Spark, or the state that is kept, refuses of an app."""
        from keyfold.engine.storage.layout import AppHome
        from keyfold.engine.storage.stored_app import StoredApp

        home = AppHome(self._home.resolve() / spec.name)
        stored = home.read_plan() if self._keep else StoredApp()
        with TemporaryDirectory(prefix="keyfold-check-", ignore_cleanup_errors=True) as directory:
            kept = home if self._keep else AppHome(Path(directory) / spec.name)
            feeds = empty_feeds(spec, Path(directory) / "feeds")
            found = findings_of(self._spark, spec, feeds, stored, kept)
        return [finding.error for finding in found if finding.error is not None]
