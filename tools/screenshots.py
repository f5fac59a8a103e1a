"""Makes the pictures of the console in the docs, from a home with invented rows.

python tools/screenshots.py             # docs/pictures/console-*.png
python tools/screenshots.py DIRECTORY   # every page, wide and narrow, light and dark
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from PIL import Image  # noqa: E402
from playwright.sync_api import sync_playwright  # noqa: E402

from tests.console import home as homes  # noqa: E402
from tests.console.conftest import DESKTOP, FLAGS, PHONE, chromium, opened  # noqa: E402
from tests.console.pages import PAGES, WRONG  # noqa: E402
from tests.server.conftest import serving  # noqa: E402

# Lines are drawn, and the status is asked for again.
LOOK_MS = 700
PICTURES = ROOT / "docs" / "pictures"
SHOWN = ("overview", "table", "key", "explained", "health")


def main() -> None:
    """Makes the pictures."""
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory() as work, sync_playwright() as playwright:
        place = homes.fill(Path(work) / "home")
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        with homes.running(place), serving(place.path.parent) as server:
            for name, address in {**PAGES, **WRONG}.items():
                if directory is None and name not in SHOWN:
                    continue
                for size in (DESKTOP, PHONE) if directory else (DESKTOP,):
                    for dark in (False, True) if directory else (False,):
                        with opened(browser, server.url, size, dark) as watched:
                            page = watched.open(address)
                            page.wait_for_load_state("load")
                            if name == "table":
                                for number in range(1, 9):
                                    homes.commit(place, "eu", 629 + number, 18_546.17 + 31.4 * number)
                            page.wait_for_timeout(LOOK_MS)
                            words = "" if directory is None else f"-{size[0]}{'-dark' if dark else ''}"
                            file = (directory or PICTURES) / f"console-{name}{words}.png"
                            file.parent.mkdir(parents=True, exist_ok=True)
                            page.screenshot(path=file, full_page=directory is not None)
                            if directory is None:
                                shrink(file)
                            print(file)
        browser.close()


def shrink(file: Path) -> None:
    """Stores a picture with few colours, which nobody sees, in a third of the bytes."""
    with Image.open(file) as found:
        small = found.convert("RGB").quantize(96)
    small.save(file, optimize=True)


if __name__ == "__main__":
    main()
