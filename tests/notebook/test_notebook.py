"""The example notebook, executed as Jupyter would."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from keyfold.engine.polling import wait_until

pytestmark = pytest.mark.jvm
NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "notebook.ipynb"


def read() -> Any:
    return nbformat.read(NOTEBOOK, as_version=4)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the notebook runs and has its temporary files: it may not count on being in the checkout."""
    return tmp_path_factory.mktemp("notebook")


@pytest.fixture(scope="module")
def executed(place: Path) -> Any:
    notebook = read()
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("KEYFOLD", "MPL"))}
    client = NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(place)}})
    client.execute(env={**plain, "TMPDIR": str(place)})
    return notebook


def outputs(notebook: Any, kind: str) -> list[str]:
    found = [output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", ())]
    return [data[kind] for data in found if kind in data]


def rows(html: str) -> list[list[str]]:
    lines = re.findall(r"<tr>(.*?)</tr>", html)
    return [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", line) for line in lines]


def test_the_notebook_is_kept_without_outputs() -> None:
    notebook = read()
    assert 10 <= len(notebook.cells) <= 14
    assert set(notebook.metadata) <= {"kernelspec", "language_info"}
    for cell in notebook.cells:
        assert not cell.metadata
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


def test_the_live_table_is_shown_before_and_after_a_file_arrives(executed: Any) -> None:
    before, after = map(rows, outputs(executed, "text/html"))
    head = ["region", "orders", "revenue", "customers"]
    assert before == [head, ["eu", "2", "42.0", "2"], ["us", "1", "10.0", "1"]]
    assert after == [
        head,
        ["asia", "1", "7.5", "1"],
        ["eu", "2", "42.0", "2"],
        ["us", "2", "40.0", "2"],
    ]


def test_a_plot_is_in_the_notebook(executed: Any) -> None:
    (image,) = outputs(executed, "image/png")
    # The first bytes of a PNG, in base64.
    assert image.startswith("iVBORw0KGgo")


def test_the_rejected_rows_are_shown(executed: Any) -> None:
    shown = outputs(executed, "text/plain")[-1]
    assert "a lot" in shown
    assert "eve" in shown
    assert shown.count("'reason'") == 2


def test_nothing_is_said_beside_the_results(executed: Any) -> None:
    streams = [
        output
        for cell in executed.cells
        for output in cell.get("outputs", ())
        if output.get("name") == "stderr"
    ]
    # Building the kernel, once on a machine, is told.
    assert all(output["text"].startswith("keyfold: building") for output in streams)


def test_the_notebook_leaves_no_files(executed: Any, place: Path) -> None:
    # Those of its JVM go when that has ended, a moment after Python.
    assert wait_until(lambda: not list(place.glob("keyfold*")), 30)
    assert not (place / ".keyfold").exists()
