"""The generated reference is up to date, and every public name is documented."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import pytest
import typer

from tests.tools import tool

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "reference"


TOOL = tool("reference")


def read(page: str) -> str:
    return (PAGES / page).read_text("utf-8")


def test_the_reference_is_up_to_date() -> None:
    assert TOOL.differing() == [], "run tools/reference.py"


def test_a_page_that_was_changed_or_is_missing_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "api").mkdir()
    for name, text in TOOL.pages().items():
        (tmp_path / name).write_text(text, "utf-8")
    assert TOOL.differing(tmp_path) == []
    (tmp_path / "cli.md").write_text("nothing", "utf-8")
    (tmp_path / "errors.md").unlink()
    (tmp_path / "api" / "removed-class.md").write_text("old", "utf-8")
    assert TOOL.differing(tmp_path) == ["cli.md", "errors.md", "api/removed-class.md"]


def test_check_exits_with_1_when_a_page_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(TOOL, "differing", lambda: ["cli.md"])
    assert TOOL.main(["--check"]) == 1
    assert "docs/reference/cli.md" in capsys.readouterr().err
    monkeypatch.setattr(TOOL, "PLACE", tmp_path)
    assert TOOL.main([]) == 0
    written = (file.relative_to(tmp_path).as_posix() for file in tmp_path.rglob("*.md"))
    assert sorted(written) == sorted(TOOL.pages())


def test_everything_public_says_something() -> None:
    assert TOOL.undocumented() == []


def test_a_command_and_an_option_without_a_help_are_noticed() -> None:
    app = typer.Typer()

    @app.command("silent")
    def silent(option: Annotated[str, typer.Option()] = "") -> None: ...

    @app.command("told")
    def told(option: Annotated[str, typer.Option(help="An option.")] = "") -> None:
        """Does it.

        Example: keyfold told
        """

    found = TOOL.undocumented_commands(typer.main.get_command(app))
    assert found == ["keyfold silent: help", "keyfold silent: example", "keyfold silent: option"]


def test_a_class_without_a_text_of_its_own_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(ValueError):
        pass

    monkeypatch.setattr(TOOL, "error_classes", lambda: [Silent])
    monkeypatch.setattr(TOOL, "documented", lambda: {"Errors": {"kf.Silent": Silent}})
    assert TOOL.undocumented() == ["kf.Silent", "error Silent"]


def test_every_setting_is_in_the_reference() -> None:
    from keyfold.settings import INTERNAL, Settings

    page = read("settings.md")
    for name, field in Settings.model_fields.items():
        if name in INTERNAL:
            assert f"`{name}`" not in page
            continue
        line = next(line for line in page.splitlines() if line.startswith(f"| `{name}` |"))
        assert f"`KEYFOLD_{name.upper()}`" in line
        assert str(field.description) in line


def test_every_command_and_option_is_in_the_reference() -> None:
    page = read("cli.md")
    sections = dict(re.findall(r"^## keyfold (\S+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    commands = {name: one for name, one in TOOL.command_tree().commands.items() if not one.hidden}
    assert list(sections) == list(commands)
    for name, command in commands.items():
        for param in command.params:
            assert f": {param.help}" in sections[name], f"{name}: {param.name}"
            wanted = param.opts if param.param_type_name == "option" else []
            assert all(re.search(rf"`{option}[` ]", sections[name]) for option in wanted)


def test_every_error_is_in_the_reference_and_in_the_tree() -> None:
    page = read("errors.md")
    tree = page.partition("```")[2].partition("```")[0]
    for cls in TOOL.error_classes():
        assert f"## {cls.__name__}\n" in page
        assert re.search(rf"\b{cls.__name__}\b", tree), cls.__name__


def test_every_public_name_is_in_the_reference() -> None:
    import keyfold

    index = read("api/index.md")
    for name in keyfold.__all__:
        assert f"`kf.{name}`" in index, name
    pages = {
        name: read(f"api/{TOOL.slug(title)}.md")
        for title, names in TOOL.documented().items()
        for name in names
    }
    for name, page in pages.items():
        assert f"\n## {name}\n" in page
        assert f"`{name}`" in index
    assert {"app.start", "stream.by", "keyed.table", "table.to"} <= set(pages)
    assert set(TOOL.documented()["Folds and steps"]) == {"kf.fold", "kf.no", "kf.step"}
    assert {"handle.drain", "handle.table(t).get", "handle.table(t).df", "driver.crash"} <= set(pages)


def test_a_page_of_the_api_is_about_one_class() -> None:
    for file in sorted((PAGES / "api").glob("*.md")):
        assert len(file.read_text("utf-8").splitlines()) <= 250, file


def test_no_part_of_an_old_page_is_lost() -> None:
    text = "".join(file.read_text("utf-8") for file in sorted((ROOT / "docs").rglob("*.md")))
    kept = (
        "spark.keyfold.combineEntries",
        "spark.keyfold.gatherBytes",
        "appear whole",
        "spark.log",
        "between",
        "is null",
        "| 130, 143 |",
        "at_least",
        "statestore",
    )
    assert [part for part in kept if part not in text] == []
