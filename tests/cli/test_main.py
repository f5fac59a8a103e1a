"""Exit codes, messages, and what importing costs."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import keyfold
from keyfold.cli import main
from keyfold.errors import BadName, HomeLocked, QueryError, QueryFailed
from tests.cli.conftest import Cli, write


def test_the_version(cli: Cli) -> None:
    found = cli("--version")
    assert (found.code, found.out) == (0, f"keyfold {keyfold.__version__}\n")


def test_help_lists_every_command(cli: Cli) -> None:
    for words in ((), ("--help",), ("-h",)):
        found = cli(*words)
        assert found.code == 0
        for name in ("run", "get", "rows", "side", "describe", "check"):
            assert f" {name} " in found.out


def test_former_names_of_commands_are_in_no_help_and_work(cli: Cli) -> None:
    listed = cli("--help").out.partition("Commands:\n")[2].split("\n")
    for name in ("late", "rejected", "standby", "receipt"):
        assert not [line for line in listed if line.split()[:1] == [name]]
        assert cli(name, "--help").code == 0


@pytest.mark.parametrize("group", [(), ("state",), ("savepoint",), ("side",), ("log",), ("audit",), ("dev",)])
def test_a_list_of_commands_has_a_whole_sentence_for_each(cli: Cli, group: tuple[str, ...]) -> None:
    *_, commands = cli(*group, "--help").out.partition("Commands:\n")
    assert commands
    assert [line for line in commands.splitlines() if not line.endswith(".")] == []
    assert "..." not in commands


@pytest.mark.parametrize("command", ["run", "get", "rows", "side", "describe", "check"])
def test_help_of_a_command_has_an_example(cli: Cli, command: str) -> None:
    found = cli(command, "--help")
    assert found.code == 0
    assert f"Example: keyfold {command}" in " ".join(found.out.split())


def test_an_unknown_command_suggests_a_near_one(cli: Cli) -> None:
    found = cli("desribe", "x.py")
    assert (found.code, found.out) == (2, "")
    assert "Did you mean 'describe'?" in found.err
    assert "try: keyfold --help" in found.err


def test_an_unknown_option_suggests_a_near_one(cli: Cli) -> None:
    found = cli("rows", "totals", "--jsn", "--json")
    assert found.code == 2
    assert "--json" in found.err
    assert found.json["error"]["kind"] == "UsageError"


def test_a_missing_argument(cli: Cli) -> None:
    found = cli("get")
    assert found.code == 2
    assert "Missing argument 'NAME'" in found.err


def passing(error: HomeLocked) -> HomeLocked:
    error.passes = True
    return error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (BadName("x"), 2),
        (QueryError("x", reason="bad_request"), 2),
        (QueryError("x", reason="not_found"), 2),
        (main.NoSuchKey("x", reason="not_found"), 1),
        (QueryError("x", reason="not_ready"), 1),
        (QueryError("x", reason="behind_bound"), 1),
        (HomeLocked("x"), 3),
        (passing(HomeLocked("a command holds the home")), 1),
        (QueryFailed("x", app="a", table="t", batch=3), 1),
        (TypeError("x"), 1),
        (main.Interrupted("x", signal.SIGTERM), 143),
    ],
)
def test_exit_codes(error: Exception, code: int) -> None:
    assert main.code_of(error) == code


def test_an_error_is_text_on_stderr_and_a_document_on_stdout(cli: Cli, tmp_path: Path) -> None:
    file = write(tmp_path / "bad.py", "x = = 1")
    found = cli("describe", file, "--json")
    assert found.code == 2
    assert found.json == {"error": {"kind": "BadApp", "text": found.err.rstrip("\n")}}
    assert cli("describe", file, "--format", "json").json == found.json
    assert cli("describe", file).out == ""


def test_what_nobody_expected_is_one_line(cli: Cli, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise TypeError("first line\nsecond line")

    monkeypatch.setattr("keyfold.cli.app.loader.load", broken)
    found = cli("describe", shop)
    assert found.code == 1
    assert found.err == "keyfold failed: TypeError: first line (run again with --debug for the traceback)\n"


def test_debug_shows_the_trace_wherever_it_stands(cli: Cli, tmp_path: Path) -> None:
    file = write(tmp_path / "bad.py", "1 / 0")
    for words in (("--debug", "describe", file), ("describe", file, "--debug")):
        found = cli(*words)
        assert found.code == 2
        assert "Traceback" in found.err
        assert "1 / 0" in found.err
    assert "Traceback" not in cli("describe", file).err


def test_no_color_is_respected(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[31m" not in cli("nonsense").err


class TestDescribe:
    def test_text_json_and_mermaid(self, cli: Cli, shop: Path) -> None:
        assert cli("describe", shop).out.startswith("app shop\n  Orders of the shop\n")
        assert cli("describe", shop, "--json").json["tables"][0]["name"] == "totals"
        assert cli("describe", shop, "--format", "json").json["app"] == "shop"
        assert cli("describe", shop, "--format", "mermaid").out.startswith("flowchart")

    def test_an_unknown_format(self, cli: Cli, shop: Path) -> None:
        found = cli("describe", shop, "--format", "mermade")
        assert found.code == 2
        assert "mermaid" in found.err

    def test_what_the_file_prints_is_no_result(self, cli: Cli, shop: Path) -> None:
        shop.write_text(shop.read_text() + "\nprint('noise')\n")
        found = cli("describe", shop, "--json")
        assert found.json["app"] == "shop"
        assert "noise" in found.err


def loaded_by(code: str) -> set[str]:
    heavy = "pyspark pyarrow pandas numpy pydantic"
    told = f"{code}\nimport sys\nprint('|', *[m for m in '{heavy}'.split() if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    return set(done.stdout.rpartition("|")[2].split())


def loaded_by_command(*words: object) -> set[str]:
    call = f"from keyfold.cli.main import main\nassert main({[str(word) for word in words]!r}) == 0"
    # Typer itself uses pydantic, from some version on, as soon as it reads arguments.
    return loaded_by(call) - {"pydantic"}


def test_the_command_line_itself_loads_nothing_heavy() -> None:
    assert loaded_by("import keyfold.cli, keyfold.cli.commands") == set()


def test_commands_load_no_more_than_they_need(shop: Path, home: Path) -> None:
    assert loaded_by_command("describe", shop) == set()
    # Rejected rows are in Parquet files.
    assert loaded_by_command("side", "show", "rejected", "orders", "--home", home) == {"numpy", "pyarrow"}
    assert loaded_by_command("get", "totals", "eu", "--home", home) <= {"pyarrow", "numpy"}


def test_a_reader_that_has_enough_is_no_error(home: Path) -> None:
    words = [sys.executable, "-m", "keyfold", "rows", "totals", "--home", str(home), "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""


def test_a_terminal_without_the_characters_gets_their_codes(home: Path) -> None:
    words = [sys.executable, "-m", "keyfold", "rows", "totals", "--home", str(home)]
    environment = {"PYTHONIOENCODING": "ascii", "PATH": "/usr/bin"}
    done = subprocess.run(words, capture_output=True, env=environment, check=True)
    assert rb"\xe4[b]" in done.stdout
    as_json = subprocess.run([*words, "--json"], capture_output=True, env=environment, check=True)
    assert rb"\u00e4[b]" in as_json.stdout


def test_a_full_disk_is_said_in_plain_words() -> None:
    from keyfold.engine.recovery.query_failure import explain_failure
    from keyfold.engine.storage.layout import AppHome

    with pytest.raises(OSError, match="No space left") as full, open("/dev/full", "w") as file:
        file.write("x" * 100_000)
    assert main.text_of(full.value).startswith("no space left on the disk")
    assert "start again" in main.text_of(full.value)
    error = explain_failure("shop", "totals", 3, full.value, AppHome(Path("home/shop").resolve()))
    assert str(error).splitlines()[0] == f"no space left on the disk of {Path('home/shop').resolve()}"
    assert (error.app, error.table, error.batch) == ("shop", "totals", 3)
