"""Schemas in DDL are checked without a JVM: what Spark accepts must be accepted."""

from py4j.java_gateway import get_field

from keyfold.plan.ddl import columns
from keyfold.plan.ddl_types import NAMES
from keyfold.testing import shared_session
from tests.unit.plan.spark_ddl import VALID


def test_the_schemas_that_unit_tests_take_for_valid_are_read_by_spark_with_the_same_columns():
    from pyspark.sql.types import StructType

    shared_session()
    for ddl in VALID:
        assert StructType.fromDDL(ddl).names == list(columns(ddl))


def test_the_known_type_names_are_those_of_sparks_grammar():
    parser = shared_session()._jvm.org.apache.spark.sql.catalyst.parser.SqlBaseParser
    states = get_field(parser._ATN, "ruleToStartState")
    rules = (parser.RULE_trivialPrimitiveType, parser.RULE_nonTrivialPrimitiveType)
    begin = [parser._ATN.nextTokens(states[rule]).toList() for rule in rules]
    words = {parser.VOCABULARY.getSymbolicName(token) for tokens in begin for token in tokens}
    assert {word.lower() for word in words} | {"array", "map", "struct"} == set(NAMES)
