"""Reads pages of the documentation into blocks, and runs these as a reader would.

| in a page | what is done with it |
|---|---|
| a block with `title="shop.py"` | saved under that name; Python is run once too |
| a `python` block | run, with the names of the blocks before it |
| `# -> value` after an expression | compared with the expression's value |
| a `console` block | each line after `$` is run, what stands below it is compared with what was printed |
| a `text` block right after one that ran | compared with what that one printed |
| `<!-- exit 2 -->` before a console block | its last command ends so |
| `<!-- not run: why -->` before a block | left alone |

`...` in what is promised stands for anything, and white space counts once.
"""

from __future__ import annotations

import ast
import doctest
import io
import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_BLOCK = re.compile(
    r"(?:<!-- (?P<mark>[^>]*?) -->\n)?^```(?P<info>[^\n`]+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_TITLE = re.compile(r'title="([^"]+)"')
_LOOSE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Block:
    """A fenced block of a page, with the comment before it."""

    page: Path
    line: int
    language: str
    title: str | None
    mark: str
    text: str

    @property
    def why_not_run(self) -> str | None:
        """The reason for which the block is left alone."""
        return self.mark.partition(":")[2].strip() if self.mark.startswith("not run") else None

    @property
    def exit_code(self) -> int:
        """How the block's last command is to end."""
        found = re.fullmatch(r"exit (\d+)", self.mark)
        return int(found[1]) if found else 0

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page, in order."""
    text = page.read_text("utf-8")
    for found in _BLOCK.finditer(text):
        title = _TITLE.search(found["info"])
        line = text.count("\n", 0, found.start("text"))
        language = found["info"].split()[0]
        yield Block(page, line, language, title and title[1], found["mark"] or "", found["text"])  # type: ignore[arg-type]


@dataclass
class Runner:
    """Runs the blocks of one page in a directory, which must be the current one."""

    place: Path
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__page__"})
    printed: str | None = None
    kept: int = 0

    def run(self, block: Block) -> None:
        """Does with a block what its language and its marks say."""
        if block.why_not_run is not None:
            self.printed = None
        elif block.title:
            self._save(block)
        elif block.language == "python":
            self._python(block)
        elif block.language == "console":
            self._console(block)
        elif block.language == "text" and self.printed is not None:
            same(block.text, self.printed, str(block))

    def _save(self, block: Block) -> None:
        path = self.place / str(block.title)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, "utf-8")
        if path.suffix == ".py":
            # A page may change a file: the next import must see the new one.
            sys.modules.pop(path.stem, None)
            runpy.run_path(str(path))

    def _python(self, block: Block) -> None:
        # Lines are counted as in the page, so that a trace shows where in it.
        source = "\n" * block.line + block.text
        self.kept = 0
        out = io.StringIO()
        with redirect_stdout(out):
            for statement in ast.parse(source, str(block.page)).body:
                self._statement(statement, source.splitlines(), block)
        self.printed = out.getvalue()
        # One inside of a `with` would be looked at by nobody.
        assert self.kept == block.text.count("# ->"), f"{block}: a '# ->' stands after no expression"

    def _statement(self, statement: ast.stmt, lines: list[str], block: Block) -> None:
        promised = promise(lines, statement.end_lineno or 0)
        if promised is None or not isinstance(statement, ast.Expr):
            exec(compile(ast.Module([statement], []), str(block.page), "exec"), self.names)
            return
        value = eval(compile(ast.Expression(statement.value), str(block.page), "eval"), self.names)
        same(promised, repr(value), f"{block.page.name}:{statement.lineno}")
        self.kept += 1

    def _console(self, block: Block) -> None:
        commands = list(typed(block.text))
        for number, (words, promised) in enumerate(commands, 1):
            code, self.printed = command(words)
            wanted = block.exit_code if number == len(commands) else 0
            assert code == wanted, f"{block}: {words} ended with {code}:\n{self.printed}"
            if promised.strip():
                same(promised, self.printed, f"{block}: {words}")


def promise(lines: list[str], last: int) -> str | None:
    """What is promised after `# ->` at the end of a statement, and on the lines of comment below it."""
    _, arrow, first = lines[last - 1].partition("# ->")
    if not arrow:
        return None
    more = []
    for line in lines[last:]:
        if not line.startswith("#  "):
            break
        more.append(line[1:])
    return "\n".join([first, *more])


def typed(text: str) -> Iterator[tuple[str, str]]:
    """Each command of a console block, with what stands below it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, _, below = part.partition("\n")
        yield line.partition("  #")[0].strip(), below


def command(line: str) -> tuple[int, str]:
    """Runs a command: the exit code, and all that was printed."""
    words = shlex.split(line)
    if words[0] == "keyfold":
        return keyfold(words[1:])
    if words[:3] == ["python", "-m", "pytest"]:
        return called_tests(words[-1])
    done = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


def keyfold(words: list[str]) -> tuple[int, str]:
    """The command itself, in this process: Spark runs already, and is what such a command finds."""
    from keyfold.cli.main import main

    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        code = main(words)
    return code, out.getvalue()


def called_tests(file: str) -> tuple[int, str]:
    """The tests of a page's own file: called here, since a pytest of their own would start another JVM."""
    names = runpy.run_path(file)
    tests = [test for name, test in names.items() if name.startswith("test_")]
    for test in tests:
        test()
    return 0 if tests else 5, f"{len(tests)} passed"


def same(promised: str, got: str, where: str) -> None:
    """Fails if what was promised is not what came."""
    told = "\n".join(line.rstrip() for line in got.strip().splitlines())
    if not doctest.OutputChecker().check_output(promised.strip() + "\n", told + "\n", _LOOSE):
        raise AssertionError(f"{where} promises\n{promised.strip()}\nand this came\n{told}")


def leave_no_modules(place: Path) -> None:
    """Forgets modules of a page's directory: the next page may have a shop.py too."""
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(f"{place}{os.sep}"):
            del sys.modules[name]
