"""The start-up check of the plan's shape: silent on the Spark that keyfold is made for, clear on another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from keyfold.engine import session
from keyfold.errors import RunError
from keyfold.testing import shared_session

pytestmark = pytest.mark.jvm


@pytest.fixture
def broken() -> Iterator[SparkSession]:
    """A session whose planner fails at the kernel's nodes, as on a Spark that plans by other means."""
    shared = shared_session()
    copy = SparkSession(shared.sparkContext, shared._jsparkSession.cloneSession())
    strategies(copy, [None])
    yield copy
    strategies(copy, [])


def strategies(spark: SparkSession, wanted: list[Any]) -> None:
    methods: Any = spark._jsparkSession.experimental()
    getattr(methods, "extraStrategies_$eq")(spark._jvm.PythonUtils.toSeq(wanted))


def test_this_spark_plans_what_the_kernel_relies_on() -> None:
    spark = shared_session()
    assert session.kernel(spark).selfCheck(spark._jsparkSession) is None
    assert session.check_session(spark) is spark


def test_a_spark_that_plans_otherwise_is_refused_by_name(broken: SparkSession) -> None:
    with pytest.raises(RunError, match="the kernel is not compatible with this version of Spark") as refused:
        session.check_session(broken)
    text = str(refused.value)
    assert f"Spark {broken.version} cannot plan keyfold's operators" in text
    assert "install pyspark>=4.3,<4.4" in text
