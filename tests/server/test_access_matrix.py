"""Role, route, scope and private columns, from the route table: a new route is in it by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from keyfold.errors import QueryError, RunError
from keyfold.read import AppReader, open_home
from keyfold.server.answers import EVENTS
from keyfold.server.auth.access import Access
from keyfold.server.granted.app import GrantedApp
from keyfold.server.granted.reasons import UNSAID, said
from keyfold.server.granted.views import FROM_BASE, GrantedViews
from keyfold.server.route import Route
from keyfold.server.route_table import ROUTES
from keyfold.server.serving import Serving
from keyfold.views.contract import ViewStore
from tests.server.conftest import Answer, Get, client, serving
from tests.server.guarded_home import HOLDERS, OUTSIDE, PRIVATE, Holder, fill
from tests.server.sse import Reader

RANKS = ("anyone", "reader", "operator", "admin")
PARTS = {
    "app": ("shop", "bank"),
    "table": ("totals", "vault"),
    "key": ("eu", f"eu/{PRIVATE}"),
    "kind": ("rejected", "late", "duplicate"),
}
AFTER = tuple(
    f"?after={one}"
    for one in ("shop.totals@1", "shop.totals@99", "shop.vault@1", "bank.ledger@1", "orders/0@1")
)
LISTS = tuple(f"?format={name}" for name in ("ndjson", "csv"))
QUERIES: dict[str, tuple[str, ...]] = {
    "list_rows": (
        "",
        *(f"?format={name}" for name in ("ndjson", "csv", "arrow")),
        f"?mailbox={PRIVATE}",
        "?mailbox.like=m%25",
        f"?where=mailbox%20=%20'{PRIVATE}'",
        "?where=mailbox%20is%20not%20null",
        "?order_by=mailbox",
        "?order_by=mailbx",
        "?as_of=0",
        "?as_of=0&format=csv",
        *AFTER,
    ),
    "get_row": ("", *AFTER),
    "get_history": ("", *LISTS),
    "list_side_rows": ("", *LISTS),
}
BODIES = {"get_rows_of_keys": {"keys": ["eu", {"region": "us"}]}}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("guarded") / "home"


@pytest.fixture(scope="module")
def tokens(home: Path) -> dict[str, str]:
    return fill(home)


@pytest.fixture(scope="module")
def server(home: Path, tokens: dict[str, str]) -> Iterator[Serving]:
    assert tokens
    with serving(home) as found:
        yield found


@pytest.fixture(scope="module")
def get(server: Serving) -> Get:
    return client(server)


def requests(route: Route) -> list[str]:
    """Addresses of a route: every app, table, key and kind, whether or not there is such a thing."""
    found = list(route.paths)
    for name, values in PARTS.items():
        found = [path.replace(f"{{{name}}}", value) for path in found for value in values]
    assert not any("{" in path for path in found), f"{route.name} has a part that PARTS lacks"
    return [path + query for path in dict.fromkeys(found) for query in QUERIES.get(route.name, ("",))]


def ask(get: Get, server: Serving, route: Route, path: str, token: str) -> tuple[int, str]:
    """The status, and all of an answer as text with its headers."""
    sent = {"authorization": f"Bearer {token}"}
    if EVENTS in route.media:
        return feed(server, token)
    found = get(path, route.method, BODIES.get(route.name, {} if route.body else None), **sent)
    return found.status, text_of(found)


def text_of(found: Answer) -> str:
    return repr(found.headers) + found.body.decode("latin-1")


def feed(server: Serving, token: str) -> tuple[int, str]:
    """What feeds say of tables in and out of scope: rows first, then changes."""
    seen, first = "", 0
    for table in ("shop.totals", "shop.vault", "shop.totlas"):
        own = table.partition(".")[2]
        for query, last in (("snapshot=true", "snapshot"), (f"position={table}@0", "batch")):
            reader = Reader(server, f"tables={table}&{query}", authorization=f"Bearer {token}")
            try:
                first = first or reader.status
                if reader.status == 200:
                    seen += repr(reader.until(last))
                else:
                    # The name that was asked for comes back in errors.
                    seen += reader.answer.read().decode().replace(table, "").replace(own, "")
            finally:
                reader.close()
    return first, seen


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_every_route_says_who_may_ask_it(route: Route) -> None:
    assert route.role in RANKS, f"{route.name} declares no role"


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
@pytest.mark.parametrize("holder", HOLDERS, ids=lambda holder: holder.name)
def test_a_token_opens_what_its_role_and_scope_say_and_shows_nothing_else(
    get: Get, server: Serving, tokens: dict[str, str], route: Route, holder: Holder
) -> None:
    may = RANKS.index(holder.role) >= RANKS.index(route.role or "admin")
    statuses = set()
    for path in requests(route):
        status, text = ask(get, server, route, path, tokens[holder.name])
        statuses.add(status)
        assert (status == 403) is not may, path
        # What was asked for comes back in errors, and is known to whoever asks.
        for word in holder.unseen:
            if word not in path:
                assert word not in text, f"{path} shows {word}"
    assert 200 in statuses if may else statuses == {403}


@pytest.mark.parametrize("holder", HOLDERS, ids=lambda holder: holder.name)
def test_what_is_hidden_from_some_is_there_for_others(
    get: Get, server: Serving, tokens: dict[str, str], holder: Holder
) -> None:
    token = tokens[holder.name]
    asked = [(route, path) for route in ROUTES for path in requests(route) if PRIVATE not in path]
    seen = "".join(ask(get, server, route, path, token)[1] for route, path in asked)
    assert (PRIVATE in seen) is (holder.role != "reader")
    assert (OUTSIDE in seen) is (holder.tables is None)


@pytest.mark.parametrize("query", [q for q in QUERIES["list_rows"] if "mail" in q or "mailbx" in q])
def test_a_reader_can_neither_filter_nor_order_by_a_private_column(
    get: Get, tokens: dict[str, str], query: str
) -> None:
    path = f"/api/apps/shop/tables/totals/rows{query}"
    reader = get(path, authorization=f"Bearer {tokens['reader-all']}")
    assert (reader.status, reader.error["near"]) == (400, [])
    # The error is that of a column that is not there.
    other = path.replace("mailbox", "nothing").replace("mailbx", "nothing")
    known = get(other, authorization=f"Bearer {tokens['reader-all']}").error["what"]
    assert re.sub("mailbox|mailbx", "nothing", reader.error["what"]) == known
    status = get(path, authorization=f"Bearer {tokens['operator-all']}").status
    assert status == (400 if "mailbx" in query else 200)


def test_a_key_is_not_compared_with_private_columns(get: Get, tokens: dict[str, str]) -> None:
    """The log of a history finds keys by the first columns: what follows the key would be a private one."""
    for value in (f"1/{PRIVATE}", "1/other"):
        found = get(
            f"/api/apps/shop/tables/totals/keys/eu/{value}/history",
            authorization=f"Bearer {tokens['reader-all']}",
        )
        assert (found.status, found.error["what"]) == (400, "the key has too many parts")


def test_tables_out_of_scope_are_as_if_they_were_not_there(get: Get, tokens: dict[str, str]) -> None:
    some = {"authorization": f"Bearer {tokens['operator-some']}"}
    assert [app["name"] for app in get("/api/apps", **some).json["apps"]] == ["shop"]
    assert get("/api/apps/shop", **some).json["tables"].keys() == {"totals"}
    # Of several apps one is in scope: its tables need no app.
    assert get("/api/tables/totals/keys/eu", **some).json["row"]["mailbox"] == PRIVATE
    all_ = {"authorization": f"Bearer {tokens['operator-all']}"}
    assert get("/api/tables/totals/keys/eu", **all_).status == 404
    for path in ("/api/apps/shop/tables/vault", "/api/apps/shop/tables/vault/rows", "/api/apps/bank"):
        hidden, missing = get(path, **some), get(re.sub("vault|bank", "nothing", path), **some)
        assert hidden.status == missing.status == 404
        assert re.sub("vault|bank", "nothing", str(hidden.error)) == str(missing.error)


def test_a_short_read_of_a_key_is_that_of_the_route(get: Get, tokens: dict[str, str]) -> None:
    for holder in HOLDERS:
        sent = {"authorization": f"Bearer {tokens[holder.name]}"}
        fast = get("/api/apps/shop/tables/totals/keys/eu", **sent).json
        slow = get("/api/apps/shop/tables/totals/keys/eu?wait=0s", **sent).json
        assert {**fast, "age": 0} == {**slow, "age": 0}
        assert ("mailbox" in fast["row"]) is (holder.role != "reader")


@pytest.mark.parametrize(
    ("base", "mine", "inherited"), [(AppReader, GrantedApp, ()), (ViewStore, GrantedViews, FROM_BASE)]
)
def test_nothing_is_granted_by_inheritance(base: Any, mine: Any, inherited: tuple[str, ...]) -> None:
    """A new method of a reader must say here what a token may see of it."""
    public = {name for name in vars(base) if not name.startswith("_")} - {"reads_at_once"}
    assert public - set(inherited) <= set(vars(mine))


def test_a_token_of_some_tables_hears_nothing_of_others_in_texts(
    home: Path, tokens: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tokens

    def behind(*_: Any) -> None:
        raise QueryError(f"of {OUTSIDE}", reason="gone", where=f"shop.{OUTSIDE}", given="after=x")

    def status(app: AppReader, **_: Any) -> Any:
        return whole(app).replace(problem=f"the view of {OUTSIDE} is damaged")

    whole = AppReader.status
    monkeypatch.setattr(AppReader, "behind", behind)
    monkeypatch.setattr(AppReader, "status", status)
    with open_home(home) as reader:
        for tables, seen in ((frozenset(("shop.totals",)), False), (None, True)):
            app = GrantedApp(reader.app("shop"), Access("operator", tables=tables))
            with pytest.raises(QueryError) as error:
                app.behind("totals", None, [])
            assert (error.value.reason, OUTSIDE in str(error.value)) == ("gone", seen)
            assert (OUTSIDE in str(app.status().problem)) is seen


def test_views_of_a_reader_know_no_private_column(home: Path, tokens: dict[str, str]) -> None:
    """Routes check columns first; a new one that does not finds none."""
    assert tokens
    with open_home(home) as reader:
        views = GrantedApp(reader.app("shop"), Access("reader")).views
        assert list(views.scan("totals", "n = 1", "n desc", 1)) == list(views.scan("totals", limit=1))
        asking: list[dict[str, Any]] = [{"where": "mailbox is not null"}, {"order_by": "mailbox"}]
        for given in asking:
            with pytest.raises(QueryError, match="unknown column"):
                views.scan("totals", **given)
        with pytest.raises(RunError, match="does not see this column"):
            views.scan("totals", columns=["mailbox"])
        with pytest.raises(QueryError, match="unknown column"):
            views.count("totals", "mailbox is not null")
        with pytest.raises(RunError, match="read only"):
            views.drop("totals")


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("key region is null", "a key is null"),
        ("does not parse: amount", "does not parse"),
        ("3 of its windows are closed since x, the watermark is y", "some of its windows are closed"),
        ("[DIVIDE_BY_ZERO] Division by zero.", "an expression divides by zero"),
        ("divided", UNSAID),
        (None, ""),
    ],
)
def test_readers_see_known_kinds_of_reasons(reason: str | None, words: str) -> None:
    assert said(reason) == words


def test_a_route_without_a_role_is_for_admins() -> None:
    assert [Access(role).may(None) for role in ("reader", "operator", "admin")] == [False, False, True]
