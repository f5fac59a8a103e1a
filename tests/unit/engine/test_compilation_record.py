"""When an app need not be compiled again: only if nothing can have changed that Spark's answer depends on."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

import keyfold as kf
from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.log.shared_streams import decide
from keyfold.engine.recovery import compilation_record, definition
from keyfold.engine.recovery.compilation_record import FILE, read_compiled, record
from keyfold.engine.sources.file_names import QueryFiles
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.stored_app import StoredApp
from keyfold.plan.nodes import AppSpec
from keyfold.settings import Settings, load
from keyfold.views.contract import Column, ViewSchema
from keyfold.views.types.parse import parse

SCHEMA = "id string, amount int"
VIEW = ViewSchema("totals", (Column("id", parse("string")),), (Column("n", parse("long")),))
MEANING = {"column:n": "count(1)", "keys": "id"}


def shop(source: Any, n: Any = "count(*)", help: str = "", **options: Any) -> AppSpec:
    app = kf.App("shop", help=help)
    app.stream("orders", source, options.pop("schema", SCHEMA)).by("id").table("totals", n=n, **options)
    return app.spec()


@dataclass(frozen=True)
class Files(QueryFiles):
    """The sources of a plan, without the plan."""

    def directories(self) -> dict[str, str]:
        return {"orders": f"file:{Path.cwd()}/data"}

    def numbers(self) -> list[int]:
        return [0]


class Table(Compiled):
    """A table as Spark compiles it, without the plan."""

    @property
    def files(self) -> QueryFiles:
        return Files(cast(Any, None))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AppHome:
    """The home of an app that has started in this directory."""
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    found = AppHome(tmp_path / "home" / "shop")
    started(found, shop(kf.files("data")))
    return found


def started(home: AppHome, spec: AppSpec, settings: Settings | None = None) -> None:
    table = Table(spec.tables[0], cast(Any, None), MEANING, "", VIEW, False, None)
    record(home, settings or load(), decide(spec, StoredApp(), home), [table], {})


def has_state(home: AppHome, meaning: dict[str, str], directory: str | None = None) -> None:
    checkpoint = home.path / "tables" / "totals" / "checkpoint" / "offsets"
    checkpoint.mkdir(parents=True)
    (checkpoint / "0").write_text("v1\n{}\n-")
    entry = {"meaning": meaning, "directories": {"orders": directory or f"file:{Path.cwd()}/data"}}
    home.storage.put("app.json", json.dumps({"tables": {"totals": entry}}).encode())


def test_the_same_app_has_the_same_meaning_and_view(home: AppHome) -> None:
    found = read_compiled(shop(kf.files("data"), help="moved to another line"), load(), home)
    assert found is None, "help is a part of the view"
    found = read_compiled(shop(kf.files("data")), load(), home)
    assert found is not None
    (table,) = found.tables
    assert (definition.meaning_of(table), table.view) == (MEANING, VIEW)
    assert (table.files.directories(), table.files.numbers()) == ({"orders": f"file:{Path.cwd()}/data"}, [0])


def test_state_of_the_definition_that_is_recorded_fits(home: AppHome) -> None:
    has_state(home, MEANING)
    assert read_compiled(shop(kf.files("data")), load(), home) is not None


def test_spark_is_asked_if_the_state_is_of_another_definition(home: AppHome) -> None:
    has_state(home, {**MEANING, "column:n": "count(`amount`)"})
    assert read_compiled(shop(kf.files("data")), load(), home) is None


def test_spark_is_asked_if_the_state_is_of_files_in_another_directory(home: AppHome) -> None:
    has_state(home, MEANING, "file:/elsewhere")
    assert read_compiled(shop(kf.files("data")), load(), home) is None


@pytest.mark.parametrize(
    "other",
    [
        lambda: shop(kf.files("data"), n="count(id)"),
        lambda: shop(kf.files("data"), schema="id string, amount long"),
        lambda: shop(kf.files("data"), ttl="1 day"),
        lambda: shop(kf.files("data", primitivesAsString=True)),
        lambda: shop(kf.files("other")),
        lambda: shop(kf.rows([])),
    ],
)
def test_spark_is_asked_about_another_declaration(home: AppHome, other: Any) -> None:
    assert read_compiled(other(), load(), home) is None


def test_spark_is_asked_with_other_settings(home: AppHome) -> None:
    assert (
        read_compiled(shop(kf.files("data")), load(spark={"spark.sql.ansi.enabled": "false"}), home) is None
    )


def test_spark_is_asked_if_the_code_has_changed(home: AppHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation_record, "_CODE", Path(__file__).parent)
    assert read_compiled(shop(kf.files("data")), load(), home) is None


def test_spark_is_asked_in_another_directory(home: AppHome, monkeypatch: pytest.MonkeyPatch) -> None:
    (home.path / "data").mkdir()
    monkeypatch.chdir(home.path)
    assert read_compiled(shop(kf.files("data")), load(), home) is None


def test_spark_is_asked_if_the_directory_of_a_stream_is_gone(home: AppHome) -> None:
    Path("data").rmdir()
    assert read_compiled(shop(kf.files("data")), load(), home) is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"hash": "0", "tables": {}}'])
def test_spark_is_asked_if_the_record_is_damaged(home: AppHome, content: bytes) -> None:
    home.storage.put(FILE, content)
    assert read_compiled(shop(kf.files("data")), load(), home) is None


@pytest.mark.parametrize(
    "depending",
    [
        lambda: shop(kf.files("data"), n=lambda: None),
        lambda: shop(kf.files("s3a://bucket/data")),
        lambda: shop(kf.spark("delta", path="data")),
        lambda: shop(kf.kafka("h:9", topic="orders", format=kf.avro(registry="http://h:9"))),
    ],
    ids=["a function", "files elsewhere", "another format", "a schema registry"],
)
def test_what_depends_on_more_than_the_declaration_is_not_recorded(home: AppHome, depending: Any) -> None:
    started(home, depending())
    assert not (home.path / FILE).exists()
    assert read_compiled(depending(), load(), home) is None


def test_functions_and_catalogs_from_elsewhere_are_not_recorded(home: AppHome) -> None:
    settings = load(spark={"spark.sql.extensions": "org.example.Functions"})
    started(home, shop(kf.files("data")), settings)
    assert read_compiled(shop(kf.files("data")), settings, home) is None


def test_a_renamed_table_is_compared_by_spark(home: AppHome) -> None:
    spec = shop(kf.files("data"))
    renamed = replace(spec, tables=(replace(spec.tables[0], was="sums"),))
    started(home, renamed)
    assert read_compiled(renamed, load(), home) is not None
    home.storage.put("app.json", json.dumps({"tables": {"sums": {"meaning": MEANING}}}).encode())
    assert read_compiled(renamed, load(), home) is None


def test_secrets_are_neither_recorded_nor_compared(home: AppHome) -> None:
    started(home, shop(kf.files("data")), load(spark={"spark.hadoop.fs.s3a.secret.key": "one"}))
    other = load(spark={"spark.hadoop.fs.s3a.secret.key": "other"})
    assert read_compiled(shop(kf.files("data")), other, home) is not None
