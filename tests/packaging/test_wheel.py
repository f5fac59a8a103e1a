"""The built wheel, alone in an empty environment, runs the README's app."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import missing

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(900)]
ROOT = Path(__file__).resolve().parents[2]


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("KEYFOLD", "PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**kept, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_wheel_runs_the_readmes_app_without_development_packages(tmp_path: Path) -> None:
    uv = Path(sys.executable).parent / "uv"
    if not uv.exists():
        missing("uv, from the development packages")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, ROOT, cwd=ROOT)
    wheel = next(tmp_path.glob("*.whl"))
    run(uv, "venv", "--python", sys.executable, tmp_path / "venv", cwd=tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    run(uv, "pip", "install", "--python", python, wheel, cwd=tmp_path)
    orders = tmp_path / "data" / "orders"
    orders.mkdir(parents=True)
    row = {"id": "1", "customer": "ann", "region": "eu", "amount": 42.0, "at": "2026-01-01T00:00:00Z"}
    (orders / "1.json").write_text(json.dumps(row) + "\n")
    shutil.copy(ROOT / "examples" / "shop.py", tmp_path)
    keyfold = tmp_path / "venv" / "bin" / "keyfold"
    # The jar in the wheel is used: a cache that can't be written would not matter.
    cache = tmp_path / "empty-cache"
    run(keyfold, "run", "shop.py", "--drain", cwd=tmp_path, KEYFOLD_KERNEL_DIR=str(cache))
    assert not list(cache.glob("*.jar"))
    found = json.loads(run(keyfold, "get", "shop.region_totals", "eu", "--json", cwd=tmp_path))
    assert (found["orders"], found["revenue"], found["customers"]) == (1, 42.0, 1)
