"""Every page of the console in Chromium: wide and narrow, light and dark, against a real server."""

from __future__ import annotations

import gzip
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from keyfold.server.console import static
from tests.console.conftest import AXE, DESKTOP, PHONE, Looks, Watched, see_built
from tests.console.home import commit
from tests.console.pages import PAGES, SHOP, TOTALS, WRONG

MOST_BYTES = 150_000
LOOKS = [(DESKTOP, False), (PHONE, True)]
BOTH = pytest.mark.parametrize(("size", "dark"), LOOKS, ids=["desktop-light", "phone-dark"])


def serious(page: Page) -> list[str]:
    """What axe finds on a page that keeps people out."""
    if not AXE.is_file():
        pytest.fail(f"{AXE} is missing: make console")
    page.evaluate(AXE.read_text("utf-8"))
    found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['id']}: {node['html'][:120]} {node.get('failureSummary', '')[:200]}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


def overflow(page: Page) -> int:
    """By how much the page is wider than its window: what is wide scrolls by itself."""
    return int(page.evaluate("() => document.documentElement.scrollWidth - innerWidth"))


@BOTH
@pytest.mark.parametrize("name", PAGES)
def test_a_page_shows_its_data_and_lets_everybody_in(
    looks: Looks, name: str, size: tuple[int, int], dark: bool
) -> None:
    watched = looks[size, dark]
    page = watched.open(PAGES[name])
    expect(page.locator("html")).to_have_attribute("data-theme", "dark" if dark else "light")
    assert page.get_by_role("alert").count() == 0
    assert overflow(page) <= 0
    assert serious(page) == []
    assert watched.wrong == []


@BOTH
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no-app", "No app shap in"),
        ("no-table", "region_total"),
        ("no-key", "No row has this key"),
        ("no-pattern", "region_totals has no pattern"),
        ("no-column", "regoin"),
    ],
)
def test_a_page_says_what_is_wrong_and_what_is_near(
    looks: Looks, name: str, words: str, size: tuple[int, int], dark: bool
) -> None:
    watched = looks[size, dark]
    page = watched.open(WRONG[name])
    expect(page.get_by_role("alert")).to_contain_text(words, ignore_case=True)
    assert overflow(page) <= 0
    assert serious(page) == []
    assert watched.wrong == []


def test_a_key_that_is_not_there_has_links_to_keys_that_are(desktop: Watched) -> None:
    page = desktop.open(WRONG["no-key"])
    page.get_by_role("alert").get_by_role("link", name="africa").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("africa")


def test_the_cause_is_named_and_its_victim_is_not(desktop: Watched) -> None:
    page = desktop.open(SHOP)
    found = page.locator(".say")
    expect(found).to_have_count(2)
    expect(found.nth(0)).to_contain_text("visits: Failed in batch 2. DIVIDE_BY_ZERO")
    expect(found.nth(1)).to_contain_text("pairs: Behind by 18,400 messages. That is about 29 s of work")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="long_visits"))
    expect(row).to_contain_text("Waits for visits")
    expect(row.locator(".tone-idle")).to_have_count(1)


def test_the_overview_follows_the_status(desktop: Watched, place: Any) -> None:
    page = desktop.open(SHOP)
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="customers", exact=True))
    expect(row).to_contain_text("300")
    status = place.read_status()
    status["tables"]["customers"]["keys"] = 301
    place.write_status(status)
    expect(row).to_contain_text("301")


def test_rows_are_filtered_and_sorted_by_the_address(desktop: Watched) -> None:
    page = desktop.open(TOTALS)
    rows = page.get_by_role("region", name="Rows of region_totals").get_by_role("row")
    expect(rows).to_have_count(5)
    page.get_by_role("button", name="revenue").click()
    expect(page).to_have_url(f"{desktop.url}{TOTALS}?order_by=revenue+desc")
    expect(rows.nth(1)).to_contain_text("eu")
    page.get_by_role("button", name="+ Filter").click()
    page.get_by_label("Column", exact=True).select_option("revenue")
    page.get_by_label("Operator").select_option("lt")
    page.get_by_label("Value").fill("10000")
    page.keyboard.press("Enter")
    expect(rows).to_have_count(3)
    expect(page).to_have_url(f"{desktop.url}{TOTALS}?order_by=revenue+desc&revenue.lt=10000")
    expect(page.locator("footer code")).to_contain_text("/rows?order_by=revenue+desc&revenue.lt=10000")
    page.get_by_role("button", name="Remove the filter").click()
    expect(rows).to_have_count(5)
    page.go_back()
    expect(rows).to_have_count(3)


def test_matches_may_come_before_what_is_known_of_their_table(desktop: Watched) -> None:
    page, held = desktop.page, []
    page.route(f"**/api{SHOP}/tables/probes", lambda route: held.append(route))
    page.goto(desktop.url + PAGES["pattern"])
    matches = page.get_by_role("list", name="Matches by time").get_by_role("listitem")
    expect(matches).not_to_have_count(0)
    assert held
    for route in held:
        route.continue_()
    expect(matches.first.get_by_role("link")).not_to_have_text("match")


def test_pages_of_rows_follow_each_other(desktop: Watched) -> None:
    page = desktop.open(f"{SHOP}/tables/customers?limit=120")
    rows = page.get_by_role("region", name="Rows of customers").get_by_role("row")
    expect(rows).to_have_count(121)
    first = rows.nth(1).inner_text()
    page.get_by_role("link", name="Next page").click()
    # Until then the link is that of the first page.
    expect(rows.nth(1)).not_to_have_text(first, use_inner_text=True)
    page.get_by_role("link", name="Next page").click()
    expect(rows).to_have_count(61)
    page.get_by_role("link", name="First page").click()
    expect(rows.nth(1)).to_have_text(first, use_inner_text=True)


def test_a_key_with_any_characters_has_a_page(desktop: Watched) -> None:
    page = desktop.open(f"{SHOP}/tables/customers")
    page.get_by_label("Find a key: customer").fill("ä/b c")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("ä/b c")
    expect(page.locator("main")).to_contain_text('"quoted" <b>text</b>')
    # Browsers take dots out of paths, so that such a key is found as a filter.
    page = desktop.open(f"{SHOP}/tables/customers?customer.eq=..")
    page.get_by_role("region").get_by_role("link", name="..", exact=True).click()
    expect(page).to_have_url(f"{desktop.url}{SHOP}/tables/customers?customer.eq=..")


def test_a_key_has_its_history(desktop: Watched) -> None:
    page = desktop.open(PAGES["key"])
    history = page.get_by_role("region", name="History")
    expect(history.get_by_role("row")).to_have_count(12)
    expect(history).to_contain_text("the row is gone")
    expect(page.locator(".u-over")).to_be_visible()


def test_a_change_is_explained_by_the_rows_that_its_batch_has_read(desktop: Watched) -> None:
    page = desktop.open(PAGES["key"])
    page.get_by_role("link", name="Explain the change of batch 20").click()
    expect(page).to_have_url(f"{desktop.url}{PAGES['explained']}")
    rows = page.get_by_role("region", name="Rows of orders").get_by_role("row")
    orders = page.get_by_role("region", name="What changed").get_by_role("row").nth(1)
    words = orders.inner_text().split()
    assert words[0] == "orders"
    expect(rows).to_have_count(int(words[3].lstrip("+")) + 1)
    expect(rows.nth(1)).to_contain_text("africa-")
    # Without a log of its source it says why, and what would record the rows.
    desktop.open(PAGES["unexplained"])
    expect(page.locator("main")).to_contain_text("no row of this key is recorded")


def test_what_was_not_folded_is_grouped_by_its_reason(desktop: Watched) -> None:
    page = desktop.open(PAGES["rejected"])
    groups = page.locator("section")
    expect(groups).to_have_count(2)
    expect(groups.nth(0)).to_contain_text("does not parse: column amount ... is not a valid double")
    expect(groups.nth(0)).to_contain_text("5 rows")
    expect(groups.nth(1)).to_contain_text("key region is null")


def test_changes_appear_as_they_are_committed_and_can_be_paused(desktop: Watched, place: Any) -> None:
    page = desktop.open(TOTALS)
    live = page.locator("section.live")
    expect(live).to_contain_text("Waiting for the next change")
    commit(place, "eu", 70_001, 1.5)
    expect(live).to_contain_text("orders 70,001")
    live.get_by_role("button", name="Pause").click()
    commit(place, "eu", 70_002, 2.5)
    expect(live.get_by_role("button", name="Go on (1)")).to_be_visible()
    expect(live).not_to_contain_text("70,002")
    live.get_by_role("button", name="Go on").click()
    expect(live).to_contain_text("70,002")
    live.get_by_label("Filter the changes").fill("70,001")
    expect(live.get_by_role("listitem")).to_have_count(1)


def test_tables_and_keys_are_found_by_keyboard(desktop: Watched) -> None:
    page = desktop.open(SHOP)
    page.keyboard.press("/")
    dialog = page.get_by_role("dialog")
    page.keyboard.type("minute")
    expect(dialog.get_by_role("option")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("per_minute")
    desktop.open(TOTALS)
    page.keyboard.press("Control+k")
    page.keyboard.type("asia")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{desktop.url}{TOTALS}/keys/asia")
    page.keyboard.press("/")
    assert serious(page) == []
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)


def test_chosen_colours_stay(desktop: Watched) -> None:
    page = desktop.open("/")
    page.get_by_role("button", name="Dark colours").click()
    desktop.open(TOTALS)
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_a_server_that_is_away_is_said_and_what_was_seen_stays(desktop: Watched) -> None:
    page = desktop.open(SHOP)
    page.route("**/api/**", lambda sent: sent.abort())
    expect(page.get_by_text("The server does not answer; this is what it said last.")).to_be_visible()
    expect(page.get_by_role("link", name="region_totals").first).to_be_visible()
    page.unroute("**/api/**")
    expect(page.get_by_text("The server does not answer")).to_have_count(0)
    desktop.wrong = [one for one in desktop.wrong if "ERR_FAILED" not in one]


def test_the_topology_runs_from_left_to_right_and_on_a_phone_down(desktop: Watched, phone: Watched) -> None:
    def box(watched: Watched, text: str) -> Any:
        found = watched.open(PAGES["topology"]).get_by_role("link", name=text).locator("rect").bounding_box()
        assert found is not None
        return found

    wide, next_wide = box(desktop, "visits Failed"), box(desktop, "long_visits Waits")
    assert next_wide["x"] > wide["x"] + wide["width"]
    narrow, next_narrow = box(phone, "visits Failed"), box(phone, "long_visits Waits")
    assert next_narrow["y"] > narrow["y"] + narrow["height"]
    assert next_narrow["x"] + next_narrow["width"] <= PHONE[0]


def test_batches_show_where_their_time_went_and_what_failed(desktop: Watched) -> None:
    page = desktop.open(PAGES["batches"])
    times = page.get_by_role("img", name="Time of 48 batches")
    expect(times.locator("g")).to_have_count(48)
    expect(times.locator("g").nth(30).locator("title")).to_contain_text("wait 420 ms")
    for phase in ("plan", "fold", "wait", "commit", "view"):
        expect(page.locator("main .legend").first).to_contain_text(phase)
    desktop.open(PAGES["failed-batches"])
    failed = page.get_by_role("img", name="Time of 2 batches").locator("g.failed title")
    expect(failed).to_have_text("batch 2 has failed: DIVIDE_BY_ZERO: Division by zero in pages / n")


def test_the_state_shows_partitions_and_savepoints(desktop: Watched) -> None:
    page = desktop.open(PAGES["state"])
    expect(page.get_by_role("list", name="Size by partition").get_by_role("listitem")).to_have_count(4)
    expect(page.locator("main")).to_contain_text("The largest partition is 1.65 times the mean")
    rows = page.get_by_role("region", name="Savepoints of region_totals").get_by_role("row")
    expect(rows).to_have_count(3)
    expect(rows.nth(1)).to_contain_text("not read back")
    expect(rows.nth(2)).to_contain_text("4")
    page.keyboard.press("/")
    page.keyboard.type("totals batches")
    expect(page.get_by_role("option")).to_have_count(2)


def test_a_pattern_is_a_graph_and_its_matches_a_timeline(desktop: Watched) -> None:
    page = desktop.open(f"{SHOP}/tables/probes")
    page.get_by_role("link", name="Pattern").click()
    expect(page).to_have_url(f"{desktop.url}{PAGES['pattern']}")
    graph = page.get_by_role("region", name="The steps of the pattern").locator("svg")
    expect(graph).to_contain_text("amount > 200")
    expect(graph).to_contain_text(">>, no refund")
    matches = page.get_by_role("list", name="Matches by time").get_by_role("listitem")
    expect(matches).to_have_count(18)
    matches.first.get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("m16")
    # A table without a pattern has no such page.
    desktop.open(TOTALS)
    expect(page.get_by_role("link", name="Batches")).to_be_visible()
    expect(page.get_by_role("link", name="Pattern")).to_have_count(0)


def test_health_says_what_to_do_worst_first(desktop: Watched) -> None:
    page = desktop.open(PAGES["health"])
    found = page.locator("main section")
    expect(found.first).to_contain_text("Table visits has failed in batch 2")
    expect(found.first).to_contain_text("DIVIDE_BY_ZERO")
    expect(found.nth(1)).to_contain_text("pairs is behind by 18,400 messages")
    expect(found.nth(1).locator("code")).to_have_text("keyfold state size shop.pairs --partitions 8")
    expect(page.locator("main")).to_contain_text("customers grows by")
    page.keyboard.press("/")
    page.keyboard.type("shop trends")
    expect(page.get_by_role("option")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{desktop.url}{SHOP}/trends")


def test_trends_are_those_of_the_chosen_time(desktop: Watched) -> None:
    page = desktop.open(PAGES["trends"])
    totals = page.locator("section").filter(has=page.get_by_role("link", name="region_totals"))
    expect(totals.get_by_role("img")).to_have_count(6)
    expect(totals).to_contain_text("Rejected, from point to point")
    page.get_by_role("link", name="6 hours").click()
    expect(page).to_have_url(f"{desktop.url}{SHOP}/trends?last=6h")
    expect(page.locator("footer code")).to_contain_text("/api/apps/shop/trends?last=6h")
    desktop.open(SHOP)
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="customers", exact=True))
    expect(row.locator("svg path")).to_be_visible()
    expect(page.locator(".stat").filter(has_text="State")).to_contain_text("an hour")


def test_the_page_is_small() -> None:
    see_built()
    files = [file for file in static.BUILT.rglob("*") if file.is_file()]
    assert sum(len(gzip.compress(file.read_bytes())) for file in files) <= MOST_BYTES
