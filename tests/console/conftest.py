"""A server of a filled home, and a browser: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from keyfold.server.console import static
from keyfold.server.serving import Serving
from tests.conftest import missing
from tests.console import home as homes
from tests.server.conftest import serving

DESKTOP: Final = (1280, 900)
PHONE: Final = (390, 844)
AXE: Final = Path(__file__).resolve().parents[2] / "console" / "node_modules" / "axe-core" / "axe.min.js"
FLAGS: Final = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"]

# A busy machine takes longer than the usual five seconds; nothing waits that long if all is well.
expect.set_options(timeout=30_000)


class Watched:
    """A page that remembers what no page may do: errors in its console, and requests to elsewhere."""

    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url = page, url
        self.wrong: list[str] = []
        host = urlsplit(url).netloc
        page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        page.on("console", lambda said: self._take(said.type, said.text))
        page.on(
            "request",
            lambda sent: urlsplit(sent.url).netloc != host and self.wrong.append(f"asked {sent.url}"),
        )

    def _take(self, kind: str, text: str) -> None:
        # The browser's own words on an answer 400 or 404, of which the page says more.
        if kind in ("error", "warning") and "a status of 40" not in text:
            self.wrong.append(text)

    def open(self, address: str) -> Page:
        """Opens an address of the console, and waits until its data is there."""
        self.page.goto(self.url + address)
        self.page.wait_for_selector("main h1")
        self.page.wait_for_selector("main [aria-busy]", state="detached")
        return self.page


def chromium() -> str:
    """The path of the browser; without one the test skips, and fails in CI."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        missing("chromium: apt-get install chromium")
    return str(found)


def see_built() -> None:
    """Skips without a built console; fails in CI."""
    if not (static.BUILT / "index.html").is_file():
        missing("the built console: make console")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    see_built()
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield found
        found.close()


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return homes.fill(tmp_path_factory.mktemp("console") / "home")


@pytest.fixture(scope="session")
def server(place: Any) -> Iterator[Serving]:
    """A server of the home, in which the app shop runs."""
    with homes.running(place), serving(place.path.parent) as found:
        yield found


@contextmanager
def opened(browser: Browser, url: str, size: tuple[int, int], dark: bool = False) -> Iterator[Watched]:
    """A page of its own; nothing wrong may have happened in it."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if dark else "light",
        reduced_motion="reduce",
    )
    try:
        context.set_default_timeout(30_000)
        watched = Watched(context.new_page(), url)
        yield watched
        assert watched.wrong == []
    finally:
        context.close()


Looks = dict[tuple[tuple[int, int], bool], Watched]


@pytest.fixture(scope="session")
def looks(browser: Browser, server: Serving) -> Iterator[Looks]:
    """Pages for a walk over all addresses: wide and light, narrow and dark."""
    with (
        opened(browser, server.url, DESKTOP) as wide,
        opened(browser, server.url, PHONE, dark=True) as narrow,
    ):
        yield {(DESKTOP, False): wide, (PHONE, True): narrow}


@pytest.fixture
def desktop(browser: Browser, server: Serving) -> Iterator[Watched]:
    with opened(browser, server.url, DESKTOP) as found:
        yield found


@pytest.fixture
def phone(browser: Browser, server: Serving) -> Iterator[Watched]:
    with opened(browser, server.url, PHONE) as found:
        yield found
