"""Builds the kernel's jar and the console into a wheel, where Spark, Java and Node are at hand.

Without them the wheel has the Scala sources only, and the kernel is compiled on first use. PySpark is no
build requirement, since it would make every build, and every editable install, fetch all of Spark.
Without Node the wheel has no console, and the server's page says so.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CONSOLE = "keyfold/server/console/built"


class KernelHook(BuildHookInterface):
    """Adds `keyfold/kernel/jar/<name>.jar` and `keyfold/server/console/built/` to a wheel."""

    work: Path | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        self.add_console(build_data)
        if find_spec("pyspark") is None:
            self.app.display_info("no pyspark here: the wheel compiles its kernel on first use")
            return
        self.work = Path(tempfile.mkdtemp(prefix="keyfold-wheel-"))
        jar = self.built(self.work)
        if jar is not None:
            build_data["force_include"][str(jar)] = f"keyfold/kernel/jar/{jar.name}"

    def add_console(self, build_data: dict[str, Any]) -> None:
        """Builds the console, if its sources are here and newer, and adds its files."""
        script, console = Path(self.root) / "tools" / "console.sh", Path(self.root) / "src" / CONSOLE
        if script.is_file():
            subprocess.run([script], check=True)
        if (console / "index.html").is_file():
            build_data["force_include"][str(console)] = CONSOLE
        else:
            self.app.display_info("no console in this wheel: it needs Node")

    def built(self, directory: Path) -> Path | None:
        """The jar, or None if it is in the sources already or there is no Java."""
        sys.path.insert(0, str(Path(self.root) / "src"))
        try:
            from keyfold.errors import JavaMissing
            from keyfold.kernel import build
        finally:
            sys.path.pop(0)
        name = build.jar_name()
        if (build.SOURCES / "jar" / name).is_file():
            return None
        try:
            return build.build(directory / name)
        except JavaMissing as missing:
            self.app.display_warning(f"{missing}\nthe wheel compiles its kernel on first use")
            return None

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self.work is not None:
            shutil.rmtree(self.work, ignore_errors=True)
