"""Imports go one way, so that a reader of one package needs only the packages before it; and other rules."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.engine.conftest import GENERATED

SOURCE = Path(__file__).resolve().parents[2] / "src" / "keyfold"
ORDER = [
    "masking",
    "private",
    "errors",
    "fault_points",
    "kafka_names",
    "settings",
    "plan",
    "declare",
    "views",
    "kernel",
    "read",
    "client",
    "server",
    "engine",
    "testing",
    "demo",
    "cli",
    "__main__",
]
ENGINE_ORDER = [
    "internal_columns",
    "polling",
    "limits",
    "cluster",
    "storage",
    "jvm",
    "startup_phases",
    "session_settings",
    "session",
    "spark_messages",
    "spark_errors",
    "kafka",
    "sources",
    "log",
    "table_reading",
    "lookups",
    "compile",
    "batch",
    "followers",
    "state",
    "operations",
    "recovery",
    "query_start",
    "realtime",
    "savepoint",
    "state_reading",
    "surgery",
    "rescale",
    "migration",
    "erasure",
    "status",
    "live_table",
    "running",
    "handle",
    "startup",
    "beside",
    "initial",
    "start",
    "rebuild",
    "shadow",
]
# The packages and modules of the engine that `read` stands on; they know nothing of it, and it of no other.
BELOW_READ = (
    "engine.internal_columns",
    "engine.storage",
    "engine.log",
    "engine.savepoint.manifest",
    "engine.savepoint.savepoints",
)
# App.start and friends reach the engine when they are called, not when they are imported.
LATE = {("declare", "engine")}
# A program of its own, which runs an app so that the JVM records the classes it loads.
PROGRAMS = {"engine.jvm.archive_writer"}
# Modules outside its package that name SQLite: the stores, the setting, and names that tables can't have.
KNOW_SQLITE = {"views/stores.py", "settings.py", "plan/validate/arguments.py"}
# Modules that write files which appear whole, outside the engine's storage package.
WRITERS = {"kernel/build.py", "cli/reports/export.py", "engine/jvm/archive_writer.py"}

MODULES = sorted(path for path in SOURCE.rglob("*.py") if "template" not in path.parts)


def name_of(path: Path) -> str:
    """`engine.compile.table`; a package is named as its directory."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {name_of(path): path for path in MODULES}


def named(path: Path) -> str:
    return str(path.relative_to(SOURCE))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def imported(path: Path, *, only_at_top: bool = False) -> Iterator[str]:
    """The modules of keyfold that a file imports: at the top, for types alone, and inside functions."""
    for node in parsed(path).body if only_at_top else ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (a.name.removeprefix("keyfold.") for a in node.names if a.name.startswith("keyfold."))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "keyfold":
            package = (node.module or "").removeprefix("keyfold").removeprefix(".")
            for alias in node.names:
                whole = f"{package}.{alias.name}".strip(".")
                yield whole if whole in NAMES else package


def is_below_read(name: str) -> bool:
    return any(name == one or name.startswith(f"{one}.") for one in BELOW_READ)


def refused(mine: str, other: str, order: list[str]) -> bool:
    assert mine in order, f"{mine} is new: give it a place in the order"
    return other in order and order.index(other) > order.index(mine)


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_a_package_imports_only_packages_before_it(path: Path) -> None:
    mine = (name_of(path) or "__init__").split(".")[0]
    if mine == "__init__":
        return
    wrong = {other for other in imported(path) if refused(mine, other.split(".")[0], ORDER)}
    if mine == "read":
        wrong = {other for other in wrong if not is_below_read(other)}
    assert {other for other in wrong if (mine, other.split(".")[0]) not in LATE} == set()


def test_only_commands_start_the_server() -> None:
    others = (path for path in MODULES if name_of(path).split(".")[0] not in ("server", "cli"))
    found = {named(path) for path in others for one in imported(path) if one.split(".")[0] == "server"}
    assert found == set()


def test_a_client_needs_nothing_but_what_reads_have() -> None:
    found = {one.split(".")[0] for path in MODULES if "client" in path.parts for one in imported(path)}
    assert found <= {"client", "errors", "masking", "private", "read"}


@pytest.mark.parametrize("path", [p for p in MODULES if is_below_read(name_of(p))], ids=named)
def test_what_read_stands_on_does_not_import_it(path: Path) -> None:
    assert [other for other in imported(path) if other.split(".")[0] == "read"] == []


@pytest.mark.parametrize("path", [p for p in MODULES if name_of(p).startswith("engine.")], ids=named)
def test_a_package_of_the_engine_imports_only_those_before_it(path: Path) -> None:
    mine = name_of(path).split(".")[1]
    others = {other for other in imported(path) if other.startswith("engine.")}
    wrong = {other for other in others if refused(mine, other.split(".")[1], ENGINE_ORDER)}
    assert wrong <= ({"engine.start", "engine.startup.options"} if name_of(path) in PROGRAMS else set())


def test_the_orders_are_those_that_contributors_read() -> None:
    page = (SOURCE.parents[1] / "CONTRIBUTING.md").read_text("utf-8")
    packages, engine = page.partition("```\nmasking,")[2].partition("```")[0].split("within engine:")
    assert ["masking", *re.findall(r"\w+", packages), "__main__"] == ORDER
    assert re.findall(r"\w+", engine) == ENGINE_ORDER


def in_cycles(imports: dict[str, set[str]]) -> dict[str, set[str]]:
    """The modules that are left when those without imports, or with imports of such alone, are taken away."""
    left = {name: others - {name} for name, others in imports.items()}
    while ready := {name for name, others in left.items() if not others & left.keys()}:
        left = {name: others for name, others in left.items() if name not in ready}
    return {name: others & left.keys() for name, others in left.items()}


def test_no_modules_import_each_other() -> None:
    assert in_cycles({name: set(imported(path, only_at_top=True)) for name, path in NAMES.items()}) == {}


def test_modules_of_the_engine_do_not_name_each_other_even_as_types_or_late() -> None:
    engine = {name: path for name, path in NAMES.items() if name.startswith("engine.")}
    assert in_cycles({name: set(imported(path)) for name, path in engine.items()}) == {}


def test_a_cycle_of_imports_is_found() -> None:
    assert in_cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}).keys() == {"a", "b", "c"}


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_the_first_line_of_a_module_says_what_it_holds(path: Path) -> None:
    text = ast.get_docstring(parsed(path))
    assert text, "no docstring"
    first = text.splitlines()[0]
    assert first.endswith((".", ":")), first


def test_durable_writes_are_in_the_storage_package_alone() -> None:
    wrong = {
        named(path)
        for path in MODULES
        if not name_of(path).startswith("engine.storage")
        and re.search(r"\bos\.(replace|rename|link|fsync)\(", path.read_text("utf-8"))
    }
    assert wrong == WRITERS


def test_the_formats_of_sparks_logs_are_known_to_the_storage_package_alone() -> None:
    words = re.compile(
        r"sources/\[0-9|/ \"(offsets|commits|sources)\"|batchWatermarkMs|logOffset|_metadata/v2"
    )
    found = {
        path
        for path in MODULES
        if not name_of(path).startswith("engine.storage") and words.search(path.read_text("utf-8"))
    }
    assert {named(path) for path in found} == set()


def test_the_classes_of_the_kernel_are_named_by_its_protocols_alone() -> None:
    words = re.compile(r"org\.apache\.spark\.sql\.(execution\.)?keyfold|KernelApi")
    assert [named(path) for path in MODULES if words.search(path.read_text("utf-8"))] == ["kernel/api.py"]


def is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def code_of(path: Path) -> str:
    """A module without comments and docstrings."""
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            kept = [
                one for one in body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))
            ]
            node.body = kept or [ast.Pass()]  # type: ignore[attr-defined]
    return ast.unparse(tree)


def test_only_the_store_itself_knows_that_views_are_in_sqlite() -> None:
    found = {path for path in MODULES if re.search(r"sqlite|views\.db", code_of(path), re.IGNORECASE)}
    # A mirror's file is no view.
    found = {path for path in found if name_of(path) != "client.mirror_rows"}
    assert {named(path) for path in found if not name_of(path).startswith("views.sqlite")} == KNOW_SQLITE


def test_files_stay_small() -> None:
    for path in (*MODULES, *SOURCE.rglob("*.scala")):
        assert len(path.read_text("utf-8").splitlines()) <= 400, path


def test_packages_stay_small() -> None:
    sizes = Counter(path.parent for path in MODULES if path.name != "__init__.py")
    assert {named(package): size for package, size in sizes.items() if size > 24} == {}


def test_commands_are_small_files() -> None:
    lines = {file.name: len(file.read_text("utf-8").splitlines()) for file in (SOURCE / "cli").rglob("*.py")}
    assert {name: count for name, count in lines.items() if count > 200} == {}


def test_modules_that_are_to_run_generated_code_exist() -> None:
    tests = Path(__file__).parents[1] / "engine"
    missing = [
        name for name in GENERATED if not tests.joinpath(*name.split(".")).with_suffix(".py").is_file()
    ]
    assert missing == []
