"""The recipes of CONTRIBUTING.md name files that exist, and all that must know a new kind by name."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import pytest

from keyfold.plan import nodes

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "keyfold"
# Paths in recipes begin in one of these, or in the directory of the path before.
BASES = (SOURCE, SOURCE / "kernel" / "scala", ROOT)
_PATH = re.compile(r"\.?[\w<>*-]+(?:[/.][\w<>*-]+)*/?")
_FILE = re.compile(r"\.(?:py|scala|md|toml|yml|yaml|html|js|css)$")
_NAME = re.compile(r"_?[A-Za-z]\w*")


@dataclass(frozen=True)
class Recipe:
    """A section of the recipes: the paths that it names, and the names in code."""

    title: str
    paths: tuple[str, ...]
    names: tuple[str, ...]

    def located(self) -> Iterator[tuple[str, Path | None]]:
        """The paths with the files and directories that they lead to, if these exist."""
        before: Path | None = None
        for path in self.paths:
            found = located(path, before)
            if found is not None:
                before = found if found.is_dir() else found.parent
            yield path, found

    def files(self) -> list[Path]:
        """The files and directories that exist."""
        return [found for _, found in self.located() if found is not None]

    def missing(self) -> list[str]:
        """The paths that lead nowhere, and those of sections that a page lacks."""
        return [
            path
            for path, found in self.located()
            if found is None or not _has_section(found, path.partition("#")[2])
        ]


def recipes(page: str) -> list[Recipe]:
    """The recipes of a page, in order."""
    text = page.partition("\n## Recipes\n")[2].partition("\n## ")[0]
    return [_recipe(section) for section in text.split("\n### ")[1:]]


def _recipe(section: str) -> Recipe:
    title, _, text = section.partition("\n")
    quoted = re.findall(r"`([^`\n]+)`|\]\(([^)\s]+)\)", text)
    words = [code or link for code, link in quoted]
    paths = [word for word in words if _is_path(word)]
    names = [word for word in words if _NAME.fullmatch(word) and re.search(r"[A-Z_]", word)]
    return Recipe(title, tuple(paths), tuple(names))


def _is_path(word: str) -> bool:
    path = word.partition("#")[0]
    return bool(_PATH.fullmatch(path)) and ("/" in path or bool(_FILE.search(path)))


def located(path: str, before: Path | None = None) -> Path | None:
    """Where a path of a recipe leads; of one with a placeholder, `views/<store>/`, the part before it."""
    plain = path.partition("#")[0]
    if "<" in plain:
        plain = plain.partition("<")[0].rpartition("/")[0]
    bases = BASES if "/" in plain or before is None else (before, *BASES)
    return next((base / plain for base in bases if (base / plain).exists()), None)


def _has_section(page: Path, section: str) -> bool:
    headings = re.findall(r"^#+ +(.*)$", page.read_text("utf-8"), re.MULTILINE) if section else []
    return not section or section in {
        re.sub(r"[^\w -]", "", h).strip().lower().replace(" ", "-") for h in headings
    }


RECIPES = recipes((ROOT / "CONTRIBUTING.md").read_text("utf-8"))


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.title)
def test_files_and_sections_that_a_recipe_names_exist(recipe: Recipe) -> None:
    assert recipe.paths
    assert recipe.missing() == [], (
        "name them as they are now, relative to the package, the kernel or the root"
    )


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.title)
def test_classes_and_tables_that_a_recipe_names_are_in_its_files(recipe: Recipe) -> None:
    files = [file for path in recipe.files() for file in (path.rglob("*") if path.is_dir() else [path])]
    text = "\n".join(file.read_text("utf-8") for file in files if file.suffix in (".py", ".scala", ".toml"))
    assert [name for name in recipe.names if not re.search(rf"\b{name}\b", text)] == []


def test_a_file_that_was_moved_is_noticed() -> None:
    text = "1. `engine/gone.py`: `Thing`. `plan/nodes.py`, `tree.py`, `no.py`; `docs/log.md#no`.\n"
    (recipe,) = recipes(f"\n## Recipes\n\n### A thing\n\n{text}")
    assert recipe.missing() == ["engine/gone.py", "no.py", "docs/log.md#no"]
    assert recipe.names == ("Thing",)


@dataclass(frozen=True)
class Named:
    """A field of a plan that has one of several kinds, and how code tells them apart."""

    kinds: frozenset[str]
    built: str
    """The class that is built from the kind's name."""
    unmistakable: frozenset[str] = frozenset()
    """Kinds whose names mean nothing else, as a string or a function's name, in a file that has `near`."""
    near: str = ""

    def in_python(self, text: str) -> list[str]:
        """What in a module tells kinds apart: comparisons, lists of kinds, functions and strings."""
        module = ast.parse(text)
        certain = self.unmistakable if self.near in text else frozenset()
        prose = {id(n.value) for n in ast.walk(module) if isinstance(n, ast.Expr)}
        return sorted(
            {
                ast.unparse(node).splitlines()[0][:80]
                for node in ast.walk(module)
                if id(node) not in prose and (self._judges(node) or _name_of(node) in certain)
            }
        )

    def _judges(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Compare):
            return "kind" in ast.unparse(node) and bool(strings(node, self.kinds))
        if isinstance(node, ast.Match):
            return "kind" in ast.unparse(node.subject) and bool(strings(node, self.kinds))
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func).rpartition(".")[2]
            return name == self.built and bool(node.args) and bool(strings(node.args[0], self.kinds))
        listed = _listed(node)
        return len({one.value for one in listed if isinstance(one, ast.Constant)} & self.kinds) >= 3


def _listed(node: ast.AST) -> list[ast.expr | None]:
    if isinstance(node, ast.Dict):
        return list(node.keys)
    return list(node.elts) if isinstance(node, ast.Tuple | ast.List | ast.Set) else []


def _name_of(node: ast.AST) -> object:
    if isinstance(node, ast.Constant):
        return node.value
    return node.name if isinstance(node, ast.FunctionDef) else None


def strings(node: ast.AST, wanted: Collection[str]) -> set[str]:
    """Those of the wanted strings that are in a part of a module."""
    return {one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and one.value in wanted}


WINDOWS = Named(
    frozenset(get_args(nodes.WindowKind)),
    "WindowSpec",
    frozenset({"tumbling", "sliding", "session", "rolling"}),
    "window",
)
CONNECTORS = Named(frozenset(get_args(nodes.ConnectorKind)), "Connector", frozenset({"rate"}), "kind")


def knows_windows(file: Path) -> list[str]:
    """What in a file tells kinds of windows apart; in the kernel, the classes of `WindowKind.scala`."""
    text = file.read_text("utf-8")
    if file.suffix == ".py":
        return WINDOWS.in_python(text)
    (kinds,) = SOURCE.rglob("WindowKind.scala")
    declared = r"case class (\w+Window)\([^{]*?extends (?:Closing|Window)"
    classes = re.findall(declared, kinds.read_text("utf-8"))
    assert len(classes) >= 3
    own = [f"{name}Processor" for name in classes]
    return [] if file.stem in own else re.findall(rf"\b(?:{'|'.join(classes)})(?:Processor)?\b", text)


def knows_connectors(file: Path) -> list[str]:
    """What in a module tells kinds of sources apart."""
    return CONNECTORS.in_python(file.read_text("utf-8")) if file.suffix == ".py" else []


def knows_stores(file: Path) -> list[str]:
    """Where a file names one of the view stores that there are, other than in prose."""
    text = file.read_text("utf-8")
    if file.suffix != ".py":
        return re.findall(r"(?i)sqlite|postgres", text)
    found = set()
    for node in ast.walk(ast.parse(text)):
        word = _name_of(node)
        if isinstance(node, ast.Name | ast.Attribute):
            word = node.id if isinstance(node, ast.Name) else node.attr
        if isinstance(node, ast.ImportFrom):
            word = node.module
        if isinstance(word, str) and re.fullmatch(r"(?i)[\w.]*(?:sqlite|postgres)[\w.]*", word):
            found.add(word)
    return sorted(found)


@dataclass(frozen=True)
class Toy:
    """A kind that a contributor adds by following a recipe."""

    recipe: str
    knows: Callable[[Path], list[str]]
    own: tuple[str, ...] = ()
    """Paths whose files are about one of the kinds that there are, or follow another recipe."""

    def unnamed(self, source: Path = SOURCE) -> dict[str, list[str]]:
        """Files that tell kinds apart and are not in the recipe, with what in them does."""
        recipe = next(one for one in RECIPES if one.title == self.recipe)
        named = set(recipe.files())
        found = {}
        for file in (*source.rglob("*.py"), *source.rglob("*.scala")):
            path = file.relative_to(source).as_posix()
            if "template" in file.parts or path.startswith(self.own) or named & {file, *file.parents}:
                continue
            if words := self.knows(file):
                found[path] = words
        return found


TOYS = [
    Toy("A window kind", knows_windows, ("demo/", "engine/jvm/archive_writer.py")),
    Toy(
        "A source",
        knows_connectors,
        (
            "declare/kafka.py",
            "engine/kafka/",
            "engine/sources/inline_rows.py",
            "engine/sources/kafka.py",
            "engine/followers/",
        ),
    ),
    Toy("A store of views", knows_stores, ("views/sqlite/", "views/postgresql/", "client/mirror_rows.py")),
]


@pytest.mark.parametrize("toy", TOYS, ids=lambda toy: toy.recipe)
def test_a_new_kind_needs_no_file_that_its_recipe_does_not_name(toy: Toy) -> None:
    unnamed = "".join(f"\n  {file}: {', '.join(words)}" for file, words in sorted(toy.unnamed().items()))
    assert not unnamed, (
        f"the recipe {toy.recipe!r} of CONTRIBUTING.md must name, or these files not tell:{unnamed}"
    )


@pytest.mark.parametrize(
    ("toy", "code"),
    [
        (TOYS[0], "closes = window.kind != 'last'\n"),
        (TOYS[0], "match spec.window.kind:\n    case 'session': pass\n"),
        (TOYS[0], "def closes(window): return meaning['window'].startswith('session')\n"),
        (TOYS[1], "bounded = stream.connector.kind in ('rows', 'files')\n"),
        (TOYS[1], "READERS = {'files': 1, 'rows': 2, 'kafka': 3}\n"),
        (TOYS[2], "from keyfold.views.sqlite.store import SqliteStore\n"),
        (TOYS[2], "on = settings.views == 'sqlite'\n"),
        (TOYS[2], "from keyfold.views.postgresql.store import PostgresStore\n"),
    ],
)  # fmt: skip
def test_a_new_place_that_tells_kinds_apart_is_noticed(tmp_path: Path, toy: Toy, code: str) -> None:
    (tmp_path / "other.py").write_text(f'"""Not about it: a session, sqlite, files."""\n{code}', "utf-8")
    (tmp_path / "prose.py").write_text(
        '"""Windows: tumbling. SQLite."""\nkind = 1\nx = "a window"\n', "utf-8"
    )
    assert list(toy.unnamed(tmp_path)) == ["other.py"]
