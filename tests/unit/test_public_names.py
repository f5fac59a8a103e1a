"""What `import keyfold` gives, and what it must not load."""

import doctest
import importlib
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import keyfold as kf
from keyfold import errors

HEAVY = ("pyspark", "py4j", "pandas", "numpy", "pyarrow", "pydantic", "pydantic_settings", "typer", "grpc")


def test_the_public_names_are_these():
    assert kf.__all__ == [
        "App",
        "DeclarationError",
        "Handle",
        "KeyedStream",
        "KeyfoldError",
        "Pattern",
        "QueryError",
        "RunError",
        "Stream",
        "Table",
        "TableReader",
        "__version__",
        "avro",
        "files",
        "fold",
        "initial",
        "kafka",
        "lookup",
        "no",
        "protobuf",
        "rate",
        "read_changes",
        "read_state",
        "read_table",
        "rows",
        "savepoint",
        "spark",
        "step",
    ]


@pytest.mark.parametrize("name", [name for name in kf.__all__ if name != "__version__"])
def test_every_public_name_is_there_and_documented(name):
    assert getattr(kf, name).__doc__


def test_the_public_methods_are_documented():
    for public in (kf.App, kf.Stream, kf.KeyedStream, kf.Table):
        for name, member in vars(public).items():
            if not name.startswith("_") and (callable(member) or isinstance(member, property)):
                assert member.__doc__, f"{public.__name__}.{name}"


def test_every_error_is_exported_by_the_module_of_errors():
    found = {name: value for name, value in vars(errors).items() if isinstance(value, type)}
    defined = {name for name, value in found.items() if issubclass(value, Exception)}
    assert errors.__all__ == sorted(defined)
    assert all(issubclass(getattr(errors, name), errors.KeyfoldError) for name in errors.__all__)


def test_the_package_exports_the_base_of_all_errors_and_its_families():
    exported = {name for name in errors.__all__ if name in kf.__all__}
    assert exported == {"KeyfoldError", *(family.__name__ for family in errors.KeyfoldError.__subclasses__())}
    assert all(getattr(kf, name) is getattr(errors, name) for name in exported)
    with pytest.raises(AttributeError, match="BadOption"):
        kf.BadOption  # noqa: B018


def test_what_start_returns_is_typed():
    import inspect

    assert inspect.signature(kf.App.start).return_annotation == "Handle"
    assert kf.Handle.__name__ == "Handle"
    assert kf.TableReader.get.__doc__
    with pytest.raises(AttributeError, match="Nothing"):
        kf.Nothing  # noqa: B018


def test_the_version_is_that_of_the_project():
    project = Path(__file__).parents[2] / "pyproject.toml"
    if not project.exists():
        pytest.skip("the tests run outside of the checkout")
    assert tomllib.loads(project.read_text())["project"]["version"] == kf.__version__


@pytest.mark.parametrize(
    "module",
    [
        "declare.app",
        "declare.keyed_stream",
        "declare.stream",
        "declare.table",
        "errors",
        "declare.folds",
        "declare.kafka",
        "declare.message_formats",
        "declare.sources",
        "plan.durations",
        "plan.ddl",
        "engine.storage.source_offsets",
    ],
)
def test_the_examples_of_the_docstrings_run(module):
    result = doctest.testmod(importlib.import_module(f"keyfold.{module}"), extraglobs={"kf": kf})
    assert result.attempted
    assert result.failed == 0


def test_importing_and_declaring_load_nothing_heavy():
    script = f"""
import json, sys
import keyfold as kf
app = kf.App("shop", every="1 second")
rows = app.stream("orders", kf.rows([]), schema="region string, at timestamp", time="at", late="1 hour")
fold = kf.fold(zero={{"n": "0"}}, update={{"n": "1"}})
totals = rows.where("true").by("region").table("totals", n="count(*)", ttl="1 day", f=fold)
regions = kf.lookup("regions", kf.files("regions"), "region string, name string")
rows.join(rows, on="region", within="1 hour").enrich(totals).by("region").latest().table("newest")
rows.enrich(regions, on="region").distinct("region", within="1 day").by("region").top(3, by="at").table("top")
totals.join_table(totals, "both")
app.describe(), app.describe("json"), app.describe("mermaid")
print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []
