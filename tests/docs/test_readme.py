"""The README's examples, run as they stand."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.jvm
README = Path(__file__).resolve().parents[2] / "README.md"
ROOT = README.parent


def blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)


def test_the_readme_runs_as_it_stands(place: Path) -> None:
    declare, run, drive = blocks()
    orders = place / "data" / "orders"
    orders.mkdir(parents=True)
    rows = [
        {"id": "1", "customer": "ann", "region": "eu", "amount": 40.0, "at": "2026-01-01T00:00:00Z"},
        {"id": "2", "customer": "bob", "region": "eu", "amount": 2.0, "at": "2026-01-01T00:01:00Z"},
        {"id": "3", "customer": "bob", "region": "us", "amount": -2.0, "at": "2026-01-01T00:01:00Z"},
    ]
    (orders / "1.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    names: dict[str, Any] = {}
    exec(compile(declare, "README.md", "exec"), names)
    found = []
    shown = run.replace(
        'handle.table("region_totals").get("eu")', 'found.append(handle.table("region_totals").get("eu"))'
    )
    exec(compile(shown, "README.md", "exec"), {**names, "found": found})
    promised = json.loads(re.search(r"# (\{.*?), \.\.\.\}", run)[1].replace("'", '"') + "}")  # type: ignore[index]
    assert promised.items() <= found[0].items()
    exec(compile(drive, "README.md", "exec"), names)


def test_the_example_is_the_readmes_app() -> None:
    code = (ROOT / "examples" / "shop.py").read_text("utf-8")
    assert code.split('"""\n', 1)[1].split() == blocks()[0].split()


def test_the_readme_is_short() -> None:
    assert len(README.read_text("utf-8").splitlines()) <= 150
