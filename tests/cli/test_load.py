"""Every way in which a file can fail to be an app ends in one clear message."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from keyfold.cli.app.loader import load
from keyfold.errors import BadApp, BadDuration
from tests.cli.conftest import SHOP, write


@pytest.fixture(autouse=True)
def _clean_imports() -> Iterator[None]:
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def refused(target: object) -> str:
    with pytest.raises(BadApp) as caught:
        load(str(target))
    return str(caught.value)


def test_the_app_of_a_file(shop: Path) -> None:
    loaded = load(str(shop))
    assert loaded.app.name == "shop"
    assert loaded.path == shop
    table = loaded.app.spec().tables[0]
    assert str(table.site) == "shop.py:6"


def test_a_file_may_import_its_neighbours_and_use_dataclasses(tmp_path: Path) -> None:
    write(tmp_path / "kf_neighbour.py", "NAME = 'shop'")
    text = """
    from __future__ import annotations
    from dataclasses import dataclass
    from pathlib import Path
    from kf_neighbour import NAME

    @dataclass
    class Row:
        a: int
    assert Path(__file__).name == "any name.py" and __name__ != "__main__"
    """
    body = "\n".join(
        line.strip() if not line.startswith("        ") else line[4:] for line in text.splitlines()
    )
    assert load(str(write(tmp_path / "any name.py", body + SHOP))).app.name == "shop"


def test_a_file_that_is_not_there_suggests_a_near_one(shop: Path) -> None:
    assert "did you mean 'shop.py'" in refused(shop.with_name("shpo.py"))
    assert "there is no file" in refused(shop.with_name("shpo.py"))


def test_a_directory_is_no_app(shop: Path) -> None:
    assert "is a directory" in refused(shop.parent)


def test_a_file_that_is_no_python_is_quoted_in_pythons_words(tmp_path: Path) -> None:
    text = refused(write(tmp_path / "bad.py", "import keyfold\nx = = 3\n"))
    assert text == "bad.py is not Python: SyntaxError: invalid syntax\n  where: bad.py:2\n  given: x = = 3"


def test_indentation_is_python_too(tmp_path: Path) -> None:
    text = refused(write(tmp_path / "bad.py", "def f():\nreturn 1\n"))
    assert "IndentationError: expected an indented block" in text
    assert "bad.py:2" in text


@pytest.mark.parametrize("content", [b"\x00\x01\x02", b"\xff\xfe\x80 = 1\n", b"PK\x03\x04\x00"])
def test_a_binary_file_is_no_python(tmp_path: Path, content: bytes) -> None:
    assert "bad.py is not Python" in refused(write(tmp_path / "bad.py", content))


def test_an_exception_names_type_message_and_line(tmp_path: Path) -> None:
    text = refused(write(tmp_path / "bad.py", "import json\n\ndef f():\n    json.loads('{')\n\nf()\n"))
    assert "cannot load bad.py: json.decoder.JSONDecodeError: Expecting property name" in text
    assert "where: bad.py:4" in text


def test_an_exception_in_a_neighbour_names_its_line(tmp_path: Path) -> None:
    write(tmp_path / "kf_broken.py", "\n1 / 0\n")
    text = refused(write(tmp_path / "bad.py", "import kf_broken\n"))
    assert "ZeroDivisionError: division by zero" in text
    assert "where: kf_broken.py:2" in text


def test_a_missing_module_and_an_exit_are_said(tmp_path: Path) -> None:
    assert "No module named 'kf_nothing'" in refused(write(tmp_path / "a.py", "import kf_nothing\n"))
    assert "SystemExit: 3" in refused(write(tmp_path / "b.py", "raise SystemExit(3)\n"))


def test_an_error_of_the_declaration_stays_itself(tmp_path: Path) -> None:
    file = write(tmp_path / "bad.py", "import keyfold as kf\n\napp = kf.App('a', every='1 fortnight')\n")
    with pytest.raises(BadDuration, match=r"bad\.py:3"):
        load(str(file))


def test_a_file_without_an_app(tmp_path: Path) -> None:
    assert "there is no app in none.py" in refused(write(tmp_path / "none.py", "x = 1\n"))
    assert "there is no app in empty.py" in refused(write(tmp_path / "empty.py", ""))


def test_an_app_without_tables(tmp_path: Path) -> None:
    file = write(tmp_path / "a.py", "import keyfold as kf\napp = kf.App('empty')\n")
    assert "app 'empty' has no tables" in refused(file)


def test_several_apps_are_told_apart_by_name(tmp_path: Path) -> None:
    file = write(tmp_path / "two.py", SHOP + SHOP.replace("app", "other").replace('"shop"', '"bank"'))
    text = refused(file)
    assert "two.py has several apps" in text
    assert "two.py:app or two.py:other" in text
    assert load(f"{file}:other").app.name == "bank"
    assert "did you mean 'other'" in refused(f"{file}:othr")
    assert "orders is of type Stream" in refused(f"{file}:orders")


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        ('orders.groupBy("region")', 'try: by("key")'),
        ('orders.table("t", n="count(*)")', 'try: by("key").table(...)'),
        ('orders.by("region").where("amount > 0")', "try: where(...) before by(...)"),
        ('orders.unionn("region")', "did you mean 'union'?"),
        ("orders.zzz", "try: one of: by, distinct, enrich"),
        ("sys.zzz", "zzz"),
    ],
)
def test_a_method_that_does_not_exist_is_answered_with_one_that_does(
    tmp_path: Path, call: str, hint: str
) -> None:
    assert hint in refused(write(tmp_path / "spark.py", f"import sys\n{SHOP}\n{call}\n"))


def test_one_app_under_two_names_is_one(tmp_path: Path) -> None:
    assert load(str(write(tmp_path / "a.py", SHOP + "\nalias = app\n"))).app.name == "shop"


@pytest.mark.parametrize("column", ['F.count("*")', 'F.sum("amount")', 'F.expr("count(*)")', "F.lit(1)"])
def test_a_column_that_needs_a_session_is_told_apart_with_what_to_write(tmp_path: Path, column: str) -> None:
    text = SHOP.replace('"count(*)"', column).replace(
        "import", "from pyspark.sql import functions as F\nimport", 1
    )
    said = refused(write(tmp_path / "shop.py", text))
    assert "needs a Spark session" in said
    assert "shop.py:7" in said
    assert f"n={column}" in said
    assert 'lambda: F.count("*")' in said
    assert "SESSION_OR_CONTEXT" not in said


def test_an_assertion_of_the_users_is_left_as_it_is(tmp_path: Path) -> None:
    said = refused(write(tmp_path / "shop.py", SHOP + "assert False"))
    assert "AssertionError" in said
    assert "Spark" not in said
