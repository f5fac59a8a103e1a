"""The tutorial, the how-to pages and the concepts, run as they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.doc_pages import Block, Runner, blocks

pytestmark = pytest.mark.jvm
DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = [
    DOCS / "index.md",
    DOCS / "tutorial.md",
    DOCS / "tutorial-fraud.md",
    DOCS / "checkpoint-contents.md",
    DOCS / "concepts.md",
    DOCS / "time.md",
    DOCS / "reference" / "patterns.md",
    *sorted(DOCS.glob("how-to/*.md")),
]


@pytest.fixture
def runner(place: Path) -> Runner:
    return Runner(place)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_a_page_does_what_it_says(page: Path, runner: Runner) -> None:
    for block in blocks(page):
        runner.run(block)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_a_block_that_is_not_run_says_why(page: Path) -> None:
    assert not [str(block) for block in blocks(page) if block.why_not_run == ""]


def test_a_broken_promise_is_noticed(runner: Runner) -> None:
    for text in ("1 + 1  # -> 3\n", "print(2)\nassert False\n", "if True:\n    1  # -> 1\n    2\n"):
        with pytest.raises(AssertionError):
            runner.run(_block("python", text))
    with pytest.raises(AssertionError, match="ended with"):
        runner.run(_block("console", "$ keyfold get shop.nothing eu\n"))
    with pytest.raises(AssertionError, match="promises"):
        runner.run(_block("console", "$ echo one\ntwo\n"))
    runner.run(_block("python", "print('one')\n"))
    with pytest.raises(AssertionError, match="promises"):
        runner.run(_block("text", "two\n"))


def test_a_kept_promise_passes(runner: Runner) -> None:
    runner.run(_block("python", "{'a': 1, 'b': 2}  # -> {'a': 1, ...}\n[1,\n 2]  # -> [1,\n#     2]\n"))
    runner.run(_block("console", "$ echo one two\none ...\n"))


def _block(language: str, text: str) -> Block:
    return Block(Path("page.md"), 1, language, None, "", text)
