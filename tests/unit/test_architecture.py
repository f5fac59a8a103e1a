"""Imports go one way, so a reader of one layer needs only the layers before it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "keyfold"
ORDER = [
    "masking",
    "private",
    "errors",
    "fault_points",
    "settings",
    "plan",
    "declare",
    "views",
    "kernel",
    "engine",
    "testing",
    "demo",
    "cli",
    "__main__",
]
# App.start and friends reach the engine when they are called, not when they are imported.
LATE = {("declare", "engine")}


def layer(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module] if node.module != "keyfold" else [f"keyfold.{a.name}" for a in node.names]
        found |= {n.split(".")[1] for n in names if n.startswith("keyfold.")}
    return found


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_layer_imports_only_layers_before_it(path: Path) -> None:
    mine = layer(path)
    if mine == "__init__":
        return
    assert mine in ORDER, f"{mine} is a new layer: give it a place in ORDER"
    for other in imported(path) & set(ORDER):
        late = (mine, other) in LATE
        assert late or ORDER.index(other) <= ORDER.index(mine), f"{mine} must not import {other}"


def test_no_file_is_too_long() -> None:
    for path in (*SOURCE.rglob("*.py"), *SOURCE.rglob("*.scala")):
        assert len(path.read_text("utf-8").splitlines()) <= 400, path


def test_commands_are_small_files() -> None:
    lines = {file.name: len(file.read_text("utf-8").splitlines()) for file in (SOURCE / "cli").rglob("*.py")}
    assert {name: count for name, count in lines.items() if count > 200} == {}
