"""The list of tests that `make test` runs: all of them exist, and no feature is without one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.core import CORE, is_core

TESTS = Path(__file__).resolve().parents[1]
# What takes minutes to set up: other machines, installations, and what they share with a home on a disk.
WITHOUT = {"cluster", "notebook", "packaging"}
PLAIN = {"views", "server", "console"}


@pytest.mark.parametrize("file", CORE)
def test_what_is_listed_exists(file: str) -> None:
    text = (TESTS / file).read_text("utf-8")
    for name in CORE[file].split():
        plain = re.escape(name.partition("[")[0])
        assert re.search(rf"^(def test_{plain}\(|class {plain}:)", text, re.MULTILINE), name


def test_every_directory_of_tests_with_a_jvm_has_one() -> None:
    directories = {path.parent for path in TESTS.rglob("test_*.py") if "unit" not in path.parts}
    found = {str(path.relative_to(TESTS)) for path in directories} - PLAIN - {"engine"} - WITHOUT
    assert found - {file.rpartition("/")[0] for file in CORE} == set()


def test_a_test_is_chosen_by_its_name_its_class_or_one_of_its_parameters() -> None:
    assert is_core("cli/test_run.py", "TestDrained::test_x", jvm=True)
    assert is_core("kernel/test_scala.py", "test_a_suite_holds[a-b]", jvm=True)
    assert is_core("any.py", "test_x", jvm=False)
    assert not is_core("kernel/test_scala.py", "test_a_suite_holds_more", jvm=True)
    assert not is_core("operations/test_operations.py", "test_after[run]", jvm=True)
