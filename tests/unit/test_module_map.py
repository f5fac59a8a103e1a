"""The map of modules, docs/internals/modules.md, has every file, each with a description."""

from __future__ import annotations

from pathlib import Path

from tests.tools import tool

ROOT = Path(__file__).resolve().parents[2]


TOOL = tool("module_map")


def test_the_map_is_up_to_date() -> None:
    assert TOOL.PAGE.read_text("utf-8") == TOOL.module_map(), "run `make docs`"


def test_every_file_is_in_the_map() -> None:
    page = TOOL.PAGE.read_text("utf-8")
    for file in (ROOT / "src" / "keyfold").rglob("*"):
        described = file.suffix in (".py", ".scala") and "template" not in file.parts
        if described and file.name != "__init__.py":
            assert f"- `{file.name}`:" in page, file


def test_every_file_has_a_description() -> None:
    assert TOOL.without_description() == []


def test_a_file_without_a_description_is_noticed(tmp_path: Path) -> None:
    silent = tmp_path / "silent.py"
    silent.write_text("x = 1\n", "utf-8")
    assert TOOL.description(silent) == ""


def test_a_scala_file_is_described_by_its_main_class(tmp_path: Path) -> None:
    file = tmp_path / "WindowKind.scala"
    file.write_text(
        "/** A bound. */\ncase class Bound(at: Long)\n\n"
        "/**\n * What a window of 1.5 hours is. More.\n */\nsealed trait WindowKind {\n"
        "  /** Its panes. */\n  def panes: Int\n}\n",
        "utf-8",
    )
    assert TOOL.description(file) == "What a window of 1.5 hours is"
