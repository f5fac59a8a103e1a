"""The files that an app consists of, and whether one has changed: its own, and the modules beside it."""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path
from typing import Final

_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})

Stamp = tuple[int, int] | None
"""When a file was written and its size; None where there is none."""


class SourceFiles:
    """The files of an app, with what they were when it was loaded."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._loaded: dict[Path, Stamp] = {}
        self._last: dict[Path, Stamp] = {}
        self.note()

    def note(self) -> None:
        """Takes the files as they are now for the loaded ones. Files of earlier loads stay watched."""
        files = {self._path, *self._loaded, *(Path(str(m.__file__)) for m in self.modules())}
        # As they were when the change was seen: they may have changed again since.
        self._loaded = {file: self._last.get(file) or _stamp(file) for file in files}
        self._last = self._loaded

    def changed(self) -> bool:
        """Whether a file has changed, and not again since the call before: editors write in steps."""
        before, self._last = self._last, {file: _stamp(file) for file in self._loaded}
        return before == self._last != self._loaded

    def modules(self) -> list[types.ModuleType]:
        """The modules that were loaded from the app's directory, without installed ones and keyfold's."""
        return [module for module in list(sys.modules.values()) if self._beside(module)]

    def unload(self) -> None:
        """Forgets these modules, so that the app's file loads them again."""
        for module in self.modules():
            sys.modules.pop(module.__name__, None)
        importlib.invalidate_caches()

    def _beside(self, module: types.ModuleType) -> bool:
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or not file.endswith(".py"):
            return False
        ours = module.__name__.split(".")[0] in ("keyfold", "__main__")
        return not ours and self._path.parent in Path(file).parents and not _INSTALLED & set(Path(file).parts)


def _stamp(file: Path) -> Stamp:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
