"""What the tests of the engine share: most run expressions without generating Java code for them."""

from __future__ import annotations

from typing import Final

import pytest

from keyfold import testing
from tests.engine.children import INTERPRETED, MODE

# Every table has expressions of its own, for which Spark would generate and compile Java code: a fifth of all
# that Java does for a few rows. Interpreted, they give the same values. These modules, which have every kind
# of aggregate, fold, window, join and pattern, run the code that is generated, as all tests of other
# directories do.
GENERATED: Final = (
    "changelog.test_changes",
    "enrich.test_property",
    "join.test_property",
    "pattern.test_patterns",
    "rows.test_dictionaries",
    "rows.test_values",
    "running.test_aggregates",
    "running.test_property",
    "test_nexmark",
    "window.test_oracles",
)


@pytest.fixture(autouse=True, scope="module")
def _expressions(request: pytest.FixtureRequest) -> None:
    generated = request.module.__name__.removeprefix("tests.engine.") in GENERATED
    mode = "FALLBACK" if generated else INTERPRETED[MODE]
    # For the session that tests share, whether it exists already or starts in this module.
    testing._SMALL[MODE] = mode
    for session in testing._shared:
        session.conf.set(MODE, mode)
