"""The kernel's Scala sources: packages, imports between them, line widths, and where positions are known."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
KERNEL = ROOT / "src" / "keyfold" / "kernel" / "scala"
SUITES = ROOT / "tests" / "kernel" / "scala"
SOURCES = sorted(KERNEL.rglob("*.scala"))
ALL = [*SOURCES, *sorted(SUITES.rglob("*.scala"))]

# A package may import those before it.
ORDER = [
    "text", "spark.plans", "spark.files", "spark.memory", "spark.state_store", "spark.scan", "spark.formats",
    "expressions", "physical", "io", "lookup", "rows.side_output", "rows.parsing", "rows.admission",
    "rows.steps", "rows.combine", "messages", "log", "state", "window", "join", "enrich", "dedup", "pattern",
    "kafka", "realtime", "migration", "api",
]  # fmt: skip
# What Spark reserves for its own code in `sql.execution` is reached from there.
PREFIXES = ("org.apache.spark.sql.keyfold.", "org.apache.spark.sql.execution.keyfold.")

# The adapters are in `spark`; nodes of a plan are Spark's own classes by nature; `io` and `log` have sources,
# which extend Spark's interfaces.
PRIVATE_API = re.compile(
    r"import org\.apache\.spark\.(?:"
    r"sql\.classic\.\{?[^\n]*\b(?:Dataset|ExpressionUtils)\b"
    r"|sql\.execution\.(?!keyfold|\{?SparkPlan|\{SortExec, SparkPlan|\{LocalTableScanExec, SparkPlan"
    r"|exchange\.Exchange|datasources\.PartitionedFile\b)"
    r"|deploy\.|rdd\.InputFileBlockHolder|util\.collection\.|sql\.catalyst\.planning\.)"
)
ADAPTERS = {"spark", "io", "log"}


def name(path: Path) -> str:
    return path.relative_to(KERNEL if path.is_relative_to(KERNEL) else SUITES).as_posix()


def package_of(path: Path) -> str:
    """`rows.admission`: the directories below the kernel's, or the suites'."""
    return ".".join(name(path).split("/")[:-1])


def text(path: Path) -> str:
    return path.read_text("utf-8")


def names(paths: list[Path]) -> list[str]:
    return [name(path) for path in paths]


@pytest.mark.parametrize("path", ALL, ids=names(ALL))
def test_a_directory_is_a_package(path: Path) -> None:
    package = re.match(r"package (\S+)\n", text(path))
    assert package is not None
    assert package[1] in {prefix + package_of(path) for prefix in PREFIXES}
    assert package_of(path) in ORDER, f"{package_of(path)} is a new package: give it a place in ORDER"


def test_a_package_has_at_most_24_files() -> None:
    sizes = Counter(package_of(path) for path in SOURCES)
    assert {package: size for package, size in sizes.items() if size > 24} == {}


@pytest.mark.parametrize("path", ALL, ids=names(ALL))
def test_a_file_is_named_after_what_it_defines(path: Path) -> None:
    """After its main class, or in the plural after a family of them."""
    defined = re.findall(r"^(?:[\w\[\]]+ )*(?:class|object|trait) (\w+)", text(path), re.MULTILINE)
    assert path.stem in defined or path.stem.removesuffix("s") in defined, defined


@pytest.mark.parametrize("path", SOURCES, ids=names(SOURCES))
def test_imports_between_packages_go_one_way(path: Path) -> None:
    mine = package_of(path)
    found = re.findall(
        r"^\s*import (?:org\.apache\.spark\.sql(?:\.execution)?\.keyfold)\.([a-z_.]*[a-z])\b",
        text(path),
        re.M,
    )
    assert set(found) <= set(ORDER)
    wrong = {(name(path), other) for other in found if ORDER.index(other) > ORDER.index(mine)}
    assert not wrong


def test_lines_fit_in_110_columns() -> None:
    wide = {name(path) for path in ALL if any(len(line) > 110 for line in text(path).splitlines())}
    assert not wide


def test_positions_of_columns_are_known_to_layouts_alone() -> None:
    """`row.length - 1` and the like: everyone else asks a layout for the column by its name."""
    arithmetic = re.compile(r"\b(?:input|schema|output|row|columns|fields|arriving)\w*\.length - \d")
    found = {name(p) for p in SOURCES if arithmetic.search(outside_layouts(text(p)))}
    assert not found


def outside_layouts(source: str) -> str:
    """The source without its classes that are called `...Layout`, which end at a brace in column 0."""
    return re.sub(r"^(?:case )?class \w+Layout\b.*?^\}", "", source, flags=re.DOTALL | re.MULTILINE)


def test_private_api_of_spark_is_used_by_adapters_alone() -> None:
    found = {
        name(p)
        for p in SOURCES
        if package_of(p).split(".")[0] not in ADAPTERS and PRIVATE_API.search(text(p))
    }
    assert not found
