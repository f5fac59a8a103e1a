"""The site can be built, without a warning, and loads nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
# What a browser fetches by itself; a link that a reader follows is another matter.
_FETCHED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"']?(?:https?:)?//[^>]*>"
    r"|<link\b(?![^>]*rel=[\"']?canonical)[^>]*\bhref=[\"']?(?:https?:)?//[^>]*>"
)
_ELSEWHERE = re.compile(r"pypi\.org|pythonhosted|/work/|/home/|/root/")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("site")
    built = build(ROOT / "mkdocs.yml", place)
    assert built.returncode == 0, built.stdout + built.stderr
    assert "WARNING" not in built.stderr
    return place


def build(config: Path, place: Path) -> subprocess.CompletedProcess[str]:
    """In a process of its own: its libraries warn, and warnings are errors here."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config), "-d", str(place)]
    quiet = {**os.environ, "PYTHONWARNINGS": "ignore", "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=quiet)


def test_every_page_is_built(site: Path) -> None:
    pages = [file.relative_to(DOCS) for file in DOCS.rglob("*.md")]
    for page in pages:
        own = page.with_suffix("") / "index.html"
        assert (site / (page.with_suffix(".html") if page.stem == "index" else own)).is_file(), page


def test_a_link_to_nowhere_fails_the_build(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# Home\n\n[gone](gone.md)\n")
    validation = (ROOT / "mkdocs.yml").read_text("utf-8").partition("validation:")[2].partition("\nnav:")[0]
    (tmp_path / "mkdocs.yml").write_text(f"site_name: x\nvalidation:{validation}\n")
    built = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert built.returncode != 0
    assert "gone.md" in built.stderr


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    for file in site.rglob("*.html"):
        assert _FETCHED.findall(file.read_text("utf-8")) == [], file
    assert _FETCHED.search('<script src="https://cdn.example/x.js"></script>')


def test_pages_name_no_machine_and_no_registry() -> None:
    for file in [*DOCS.rglob("*.md"), *DOCS.rglob("*.svg"), ROOT / "mkdocs.yml"]:
        assert _ELSEWHERE.findall(file.read_text("utf-8")) == [], file


def test_lines_of_hand_written_pages_are_short() -> None:
    made = {"settings.md", "cli.md", "errors.md", "names.md"}
    for file in DOCS.rglob("*.md"):
        if not (file.parent.name == "reference" and file.name in made):
            lines = file.read_text("utf-8").splitlines()
            long = [n for n, line in enumerate(lines, 1) if len(line) > 140 and not line.startswith("|")]
            assert long == [], file


def test_the_picture_is_whole_and_stands_alone() -> None:
    picture = DOCS / "way-of-a-row.svg"
    root = ElementTree.parse(picture).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root.get("viewBox")
    words = " ".join(text for text in root.itertext())
    for part in ("source", "where", "shuffle", "state", "view", "commit"):
        assert part in words
    assert "href" not in picture.read_text("utf-8")
