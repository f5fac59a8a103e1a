"""Names of keyfold's own columns: one list in Python, one in the kernel, and the same in both."""

from __future__ import annotations

import re
from pathlib import Path

from keyfold.engine import internal_columns

SOURCE = Path(__file__).resolve().parents[3] / "src" / "keyfold"
SCALA = next(SOURCE.rglob("InternalColumns.scala"))


def in_the_kernel() -> dict[str, str]:
    return dict(re.findall(r'val (\w+) = "([^"]+)"', SCALA.read_text("utf-8")))


def test_the_names_that_python_shares_with_the_kernel_are_the_same_there() -> None:
    kernel = in_the_kernel()
    assert {name: kernel.get(name) for name in internal_columns.KERNEL} == internal_columns.KERNEL


def test_every_column_that_the_kernel_hides_from_the_user_is_known_in_python() -> None:
    (hidden,) = re.findall(r"val hidden: Set\[String\] = Set\(([^)]*)\)", SCALA.read_text("utf-8"))
    assert {name.strip() for name in hidden.split(",")} <= internal_columns.KERNEL.keys()


def test_no_two_columns_have_one_name() -> None:
    kernel = in_the_kernel()
    python = {n: v for n, v in vars(internal_columns).items() if n.isupper() and isinstance(v, str)}
    assert len(set(python.values())) == len(python)
    assert len(set(kernel.values())) == len(kernel)
    shared = set(internal_columns.KERNEL.values())
    assert set(python.values()) & set(kernel.values()) == shared, "shared names are all listed in KERNEL"


def test_no_other_python_file_spells_an_internal_name() -> None:
    files = [path for path in SOURCE.rglob("*.py") if path.name != "internal_columns.py"]
    assert [path for path in files if internal_columns.PREFIX in path.read_text("utf-8")] == []


def test_users_columns_are_told_from_internal_ones() -> None:
    names = ["id", internal_columns.TIME, "_KF_x"]
    assert internal_columns.visible(names) == ["id", "_KF_x"]
    assert internal_columns.reserved_names(names) == [internal_columns.TIME, "_KF_x"]
