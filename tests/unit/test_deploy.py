"""The files in `deploy/`: linters find nothing, and what they run exists."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.tools import tool

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


def run(*words: object) -> None:
    """Runs a tool, which must find nothing."""
    done: Any = subprocess.run([str(word) for word in words], capture_output=True, timeout=60)
    # systemd only warns of an unknown word.
    assert (done.returncode, done.stdout + done.stderr) == (0, b""), (done.stdout + done.stderr).decode()


def test_yaml_and_dockerfile_pass_their_linters() -> None:
    tools = Path(sys.executable).parent
    run(tools / "yamllint", "--strict", "--config-file", DEPLOY / ".yamllint.yaml", DEPLOY)
    run(tools / "hadolint", "--failure-threshold", "style", DEPLOY / "docker" / "Dockerfile")


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    """Where it is installed. It looks for the program, which is another one here."""
    if shutil.which("systemd-analyze") is None:
        return
    for unit in (DEPLOY / "systemd").glob("*.service"):
        text = unit.read_text("utf-8")
        program = "ExecStart=/srv/%i/.venv/bin/keyfold "
        assert program in text
        copy = tmp_path / unit.name
        copy.write_text(text.replace(program, f"ExecStart={sys.executable} -m keyfold "), "utf-8")
        run("systemd-analyze", "verify", "--man=no", copy)


def test_commands_that_are_deployed_exist() -> None:
    """In units, containers and their docs: each command and each of its options."""
    reference = tool("reference")
    commands = reference.all_commands(reference.command_tree())
    compose = yaml.safe_load((DEPLOY / "docker" / "compose.yaml").read_text("utf-8"))["services"]
    lines = [one["command"] for one in compose.values() if "command" in one]
    for unit in (DEPLOY / "systemd").glob("*.service"):
        lines += [line.split()[1:] for line in re.findall(r"ExecStart=(.*)", unit.read_text("utf-8"))]
    assert len(lines) == 4
    for words in lines:
        name = next(name for name in (" ".join(words[:2]), words[0]) if name in commands)
        known = {option for one in commands[name].params for option in one.opts}
        assert {word for word in words if word.startswith("--")} <= known, words


def test_the_app_and_the_versions_are_those_of_this_checkout() -> None:
    lock = (DEPLOY.parent / "uv.lock").read_text("utf-8")
    (spark,) = re.findall(r'name = "pyspark"\nversion = "(.+)"', lock)
    manifests = list(yaml.safe_load_all((DEPLOY / "kubernetes" / "shop.yaml").read_text("utf-8")))
    assert [one["spec"]["sparkVersion"] for one in manifests if one["kind"] == "SparkApplication"] == [spark]
    app = runpy.run_path(str(DEPLOY / "docker" / "shop.py"))["app"]
    assert [table.name for table in app.spec().tables] == ["totals", "per_minute"]
