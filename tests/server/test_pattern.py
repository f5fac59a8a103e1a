"""`/api/apps/{app}/tables/{table}/pattern`: a pattern with its steps as a graph."""

from __future__ import annotations

from pathlib import Path

import keyfold as kf
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.stored_app import StoredApp, StoredTable
from keyfold.plan.describe.as_json import to_dict
from keyfold.views.contract import ViewSchema
from tests.cli.conftest import columns, make_app
from tests.server.conftest import client, serving

TESTING = ViewSchema(
    "card_testing",
    columns(card="string", match_id="string"),
    columns(started="timestamp", ended="timestamp", lost="double"),
)
PER_CARD = ViewSchema("per_card", columns(card="string"), columns(n="long"))


def bank() -> kf.App:
    app = kf.App("bank")
    cards = app.stream("cards", kf.rows([]), "card string, amount double, at timestamp", time="at").by("card")
    probe, strike = kf.step("probe", "amount < 1", times=(3, None)), kf.step("strike", "amount > 500")
    calm = kf.no("block", "amount = 0")
    returns = {"lost": "strike[0].amount"}
    cards.pattern("card_testing", probe >> calm >> strike, within="10 minutes", returns=returns)
    cards.table("per_card", n="count(*)")
    return app


def test_a_pattern_is_its_steps_and_what_may_follow_them(tmp_path: Path) -> None:
    home = AppHome(tmp_path / "bank")
    make_app(home, {TESTING: [], PER_CARD: []})
    tables = {"card_testing": StoredTable(), "per_card": StoredTable()}
    home.write_plan(StoredApp(tables, declared=to_dict(bank().spec()), app="bank"))
    with serving(tmp_path) as server:
        get = client(server)
        found = get("/api/tables/card_testing/pattern").json["pattern"]
        assert [one["condition"] for one in found["steps"]] == ["amount < 1", "amount > 500"]
        assert found["steps"][0]["name"].startswith("probe")
        arrows = [(one["source"], one["target"], one["words"]) for one in found["arrows"]]
        assert arrows == [(None, 0, ""), (0, 0, ">>"), (0, 1, ">>, no block"), (1, None, "")]
        assert (found["within"], found["returns"]) == ("10 minutes", {"lost": "strike[0].amount"})
        wrong = get("/api/tables/per_card/pattern")
        assert (wrong.status, wrong.error["hint"]) == (404, "tables of patterns: card_testing")


def test_what_an_earlier_version_has_recorded_has_words_and_no_graph(tmp_path: Path) -> None:
    home = AppHome(tmp_path / "bank")
    make_app(home, {TESTING: []})
    declared = to_dict(bank().spec())
    del declared["tables"][0]["pattern"]["graph"]
    home.write_plan(StoredApp({"card_testing": StoredTable()}, declared=declared, app="bank"))
    with serving(tmp_path) as server:
        found = client(server)("/api/tables/card_testing/pattern").json["pattern"]
    assert (found["steps"], found["arrows"]) == ([], [])
    assert "probe" in found["sequence"]
