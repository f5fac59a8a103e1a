"""The built wheel: what is in it, and that it runs alone in an empty environment, on each Python."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from email import message_from_bytes
from itertools import takewhile
from pathlib import Path
from zipfile import ZipFile

import pytest

from keyfold.kernel import build
from tests.conftest import missing

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(900)]
ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
UV = Path(sys.executable).parent / "uv"
THIS = f"{sys.version_info.major}.{sys.version_info.minor}"
ORDER = {"id": "1", "customer": "ann", "region": "eu", "amount": 42.0, "at": "2026-01-01T00:00:00Z"}
IMPORT_ALL = """
import importlib, pkgutil, keyfold
names = [m.name for m in pkgutil.walk_packages(keyfold.__path__, "keyfold.") if "__main__" not in m.name]
for name in names:
    importlib.import_module(name)
print(len(names))
"""


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


def declared() -> list[str]:
    """The lowest and the highest Python of the classifiers."""
    named = [re.fullmatch(r".*Python :: 3\.(\d+)", text) for text in PROJECT["project"]["classifiers"]]
    minors = sorted(int(found[1]) for found in named if found)
    return [f"3.{minors[0]}", f"3.{minors[-1]}"]


def candidates(version: str) -> Iterator[str]:
    """Commands that may be a Python of that version; pyenv has some in the path that do not run."""
    for ask in (
        [UV, "python", "find", "--no-python-downloads", version],
        ["pyenv", "whence", "--path", f"python{version}"],
    ):
        if shutil.which(ask[0]):
            done = subprocess.run(list(map(str, ask)), capture_output=True, text=True, check=False, cwd="/")
            yield from done.stdout.split("\n") if done.returncode == 0 else ()
    yield shutil.which(f"python{version}") or ""


def installed_python(version: str) -> str | None:
    """A Python of that version that runs here, or None."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    for python in filter(None, candidates(version)):
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
        if done.stdout.strip() == version:
            return python
    return None


def pythons() -> dict[str, str]:
    """This Python first, then the lowest and the highest declared one where they are installed."""
    found = {version: installed_python(version) for version in declared() if version != THIS}
    return {THIS: sys.executable, **{version: python for version, python in found.items() if python}}


PYTHONS = pythons()


@dataclass(frozen=True)
class Place:
    """An environment with the wheel in it, and a directory to work in."""

    bin: Path
    work: Path
    cache: Path

    def keyfold(self, *words: str, cwd: Path | None = None) -> str:
        # No jar may be built here: the wheel's is to be used. The class archive would be written here too.
        return run(
            self.bin / "keyfold",
            *words,
            cwd=cwd or self.work,
            KEYFOLD_KERNEL_DIR=str(self.cache),
            KEYFOLD_CLASS_ARCHIVE="false",
        )


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", place, ROOT, cwd=ROOT)
    return next(place.glob("*.whl"))


@pytest.fixture(scope="session", params=PYTHONS)
def place(request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Place:
    if not UV.exists():
        missing("uv, from the development packages")
    made = tmp_path_factory.mktemp("place")
    place = Place(made / "venv" / "bin", made / "work", made / "cache")
    place.work.mkdir()
    place.cache.mkdir()
    run(UV, "venv", "--python", PYTHONS[request.param], made / "venv", cwd=made)
    # The lock's versions without the development packages; `check` says if anything asked for is missing.
    run(
        UV,
        "export",
        "--frozen",
        "--no-dev",
        "--no-emit-project",
        "--no-hashes",
        "-o",
        made / "lock.txt",
        cwd=ROOT,
    )
    python = place.bin / "python"
    run(UV, "pip", "install", "--no-deps", "--python", python, "-r", made / "lock.txt", wheel, cwd=made)
    run(UV, "pip", "check", "--python", python, cwd=made)
    return place


def names(requirements: list[str]) -> set[str]:
    return {"".join(takewhile(lambda c: c.isalnum() or c in "-_.", text)).lower() for text in requirements}


def test_the_wheel_has_the_kernel_and_no_tests(wheel: Path) -> None:
    files = [Path(name) for name in ZipFile(wheel).namelist()]
    about = f"keyfold-{PROJECT['project']['version']}.dist-info"
    assert {file.parts[0] for file in files} == {"keyfold", about}
    assert not [file for file in files if "tests" in file.parts or file.suffix == ".pyc"]
    jars = [file for file in files if file.suffix == ".jar"]
    assert jars == [Path("keyfold/kernel/jar") / build.jar_name()]
    # Its scripts and styles are beside it, named by what is in them.
    page = Path("keyfold/server/console/built/index.html")
    assert page in files
    assert {file.suffix for file in files if file.parent == page.parent / "assets"} == {".js", ".css", ".svg"}
    assert {Path("keyfold/py.typed"), Path(about, "licenses", "LICENSE")} <= set(files)


def test_the_jar_in_the_wheel_has_the_kernels_classes(wheel: Path, tmp_path: Path) -> None:
    with ZipFile(wheel) as files:
        jar = files.extract(f"keyfold/kernel/jar/{build.jar_name()}", tmp_path)
    assert "org/apache/spark/sql/keyfold/api/KernelApi$.class" in ZipFile(jar).namelist()


def test_the_wheel_asks_for_no_development_package(wheel: Path) -> None:
    about = f"keyfold-{PROJECT['project']['version']}.dist-info/METADATA"
    metadata = message_from_bytes(ZipFile(wheel).read(about))
    asked = [text for text in metadata.get_all("Requires-Dist", []) if "extra ==" not in text]
    assert names(asked) == names(PROJECT["project"]["dependencies"])
    assert not names(asked) & names(PROJECT["dependency-groups"]["dev"])
    assert metadata["Requires-Python"] == PROJECT["project"]["requires-python"]


def test_the_wheel_runs_the_readmes_app_without_development_packages(place: Place) -> None:
    assert place.keyfold("--version").strip() == f"keyfold {PROJECT['project']['version']}"
    assert int(run(place.bin / "python", "-c", IMPORT_ALL, cwd=place.work)) > 50
    orders = place.work / "data" / "orders"
    orders.mkdir(parents=True)
    (orders / "1.json").write_text(json.dumps(ORDER) + "\n")
    shutil.copy(ROOT / "examples" / "shop.py", place.work)
    assert "region_totals" in place.keyfold("describe", "shop.py")
    place.keyfold("run", "shop.py", "--drain")
    found = json.loads(place.keyfold("get", "shop.region_totals", "eu", "--json"))
    assert (found["orders"], found["revenue"], found["customers"]) == (1, 42.0, 1)
    assert not list(place.cache.iterdir())


@pytest.mark.parametrize("place", [THIS], indirect=True)
def test_the_demo_runs_from_any_directory_and_equals_its_recount(place: Place, tmp_path: Path) -> None:
    report = json.loads(place.keyfold("demo", "--for", "10s", "--json", cwd=tmp_path))
    assert report["equal"] is True
    assert report["rejected"]
    assert all(report["tables"].values())
    assert not list(place.cache.iterdir())
    assert not list(tmp_path.iterdir())
