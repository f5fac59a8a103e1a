"""Keys and tables, as they are declared."""

import re
from datetime import timedelta

import pytest

import keyfold as kf
from keyfold.errors import BadDuration, BadExpression, BadName, BadOption
from keyfold.plan.nodes import AggregateSpec, TableSpec
from keyfold.plan.validate.table_options import RESERVED, SUPPORTED
from keyfold.views.schema import ViewSchema

COUNT = {"n": "count(*)"}


@pytest.fixture
def orders():
    return kf.App("shop").stream("orders", kf.rows([]), schema="id string, region string, amount double")


@pytest.fixture
def keyed(orders):
    return orders.by("region")


def test_a_table_is_its_key_columns_and_options(orders):
    fold = kf.fold(zero={"v": "0"}, update={"v": "amount"})
    made = orders.by("region", day="date(at)").table(
        "totals", {"n": "count(*)"}, last=fold, ttl="30 days", partitions=4, on_error="fail", help="By region"
    )
    assert made.spec == TableSpec(
        app="shop",
        name="totals",
        input=orders.node,
        keys=(("region", "region"), ("day", "date(at)")),
        body=AggregateSpec((("n", "count(*)"), ("last", fold))),
        ttl_ms=30 * 86_400_000,
        partitions=4,
        on_error="fail",
        help="By region",
    )
    assert orders.app.spec().tables == (made.spec,)
    assert (made.name, repr(made)) == ("totals", "<table shop.totals>")


def test_a_key_is_needed_and_one_for_everything_is_proposed(orders):
    with pytest.raises(BadOption, match=r"by\(all=\"'all'\"\)"):
        orders.by()


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ("lower(region)", r"by\(lower_region='lower\(region\)'\)"),
        ("customer.id", r"by\(customer_id='customer\.id'\)"),
        ("_id", r"by\(id='_id'\)"),
        ("1", r"by\(key='1'\)"),
    ],
)
def test_an_expression_as_key_needs_a_name(orders, given, advice):
    with pytest.raises(BadName, match=advice):
        orders.by(given)


def test_a_function_as_key_needs_a_name(orders):
    with pytest.raises(BadName, match=r"a named expression: by\(day=\.\.\.\)"):
        orders.by(lambda: None)


@pytest.mark.parametrize(("plain", "named"), [(("a", "a"), {}), (("a",), {"a": "1"}), (("a", "A"), {})])
def test_a_key_given_twice_is_refused(orders, plain, named):
    with pytest.raises(BadName, match=r"key .* is given twice"):
        orders.by(*plain, **named)


def test_a_table_needs_a_column(keyed):
    for columns in (None, {}):
        with pytest.raises(BadOption, match="at least one column"):
            keyed.table("totals", columns)


@pytest.mark.parametrize("name", ["region", "REGION"])
def test_a_column_cannot_have_the_name_of_a_key(keyed, name):
    with pytest.raises(BadName, match="name of the key 'region'"):
        keyed.table("totals", {name: "count(*)"})


def test_a_column_given_twice_is_refused(keyed):
    with pytest.raises(BadName, match="column 'n' is given twice"):
        keyed.table("totals", {"n": "count(*)"}, n="sum(amount)")
    with pytest.raises(BadName, match="column 'N' is given twice, also as 'n'"):
        keyed.table("totals", n="count(*)", N="sum(amount)")


def test_columns_that_begin_with_an_underscore_are_keyfolds_own(keyed):
    with pytest.raises(BadName, match="names that begin with an underscore are reserved"):
        keyed.table("totals", _batch="count(*)")


def test_tables_that_sqlite_keeps_for_itself_are_refused(keyed):
    with pytest.raises(BadName, match=r"(?s)'sqlite_' are reserved.*try: totals"):
        keyed.table("sqlite_totals", COUNT)


@pytest.mark.parametrize("name", [name for name in RESERVED if name not in SUPPORTED])
def test_options_of_later_versions_are_reserved(keyed, name):
    with pytest.raises(
        BadOption, match=rf"(?s)the option '{name}' of table is not supported yet.*pass the columns as a dict"
    ):
        keyed.table("totals", n="count(*)", **{name: "max(amount)"})


@pytest.mark.parametrize("name", [*RESERVED, "name", "columns", "self"])
def test_in_a_dict_every_option_name_is_a_column(keyed, name):
    assert keyed.table("totals", {name: "max(amount)"}).spec.columns == ((name, "max(amount)"),)


def test_names_of_arguments_are_free_for_columns(keyed):
    made = keyed.table("totals", name="max(id)", columns="count(*)", self="min(id)")
    assert [name for name, _ in made.spec.columns] == ["name", "columns", "self"]


@pytest.mark.parametrize(
    ("name", "value", "meant"),
    [
        ("tll", "30 days", "ttl"),
        ("tll", timedelta(days=30), "ttl"),
        ("TTL", "30 days", "ttl"),
        ("partition", 4, "partitions"),
        ("on_eror", "fail", "on_error"),
        ("onerror", "fail", "on_error"),
        ("hlep", "Totals", "help"),
    ],
)
def test_a_misspelt_option_is_refused_and_the_right_one_suggested(keyed, name, value, meant):
    with pytest.raises(BadOption, match=rf"(?s)unknown option '{name}'.*{name}=.*did you mean '{meant}'"):
        keyed.table("totals", n="count(*)", **{name: value})


def test_a_column_whose_name_is_like_an_option_is_a_column(keyed):
    made = keyed.table("totals", tll="max(amount)", orders="count(*)", partition=lambda: None)
    assert [name for name, _ in made.spec.columns] == ["tll", "orders", "partition"]


@pytest.mark.parametrize("value", [None, 3, 1.5, True, ["sum(a)"], timedelta(1), "", b"x"])
def test_a_value_that_is_no_column_is_refused(keyed, value):
    for declare in (lambda: keyed.table("t", {"x": value}), lambda: keyed.table("t", x=value)):
        with pytest.raises(BadExpression, match="column 'x'"):
            declare()


def test_a_dict_of_columns_goes_second(keyed):
    with pytest.raises(BadOption, match="is the second argument"):
        keyed.table("totals", columns={"n": "count(*)"})
    for columns in ("count(*)", ["n"], 3):
        with pytest.raises(BadOption, match="must be a dict"):
            keyed.table("totals", columns)


@pytest.mark.parametrize("ttl", ["1 month", 0, 30, "-1 day", "soon"])
def test_a_bad_ttl_is_refused(keyed, ttl):
    with pytest.raises(BadDuration, match=r"(?s)ttl.*where: shop\.totals, test_tables\.py:\d+"):
        keyed.table("totals", COUNT, ttl=ttl)


def test_an_expression_as_ttl_is_taken_for_a_column_and_refused(keyed):
    with pytest.raises(
        BadOption, match=r"(?s)`ttl` is an option of table, not a column.*pass the columns as a dict: {'ttl'"
    ):
        keyed.table("totals", ttl="max(amount)")


@pytest.mark.parametrize("partitions", [0, -1, 1.5, "4", True])
def test_bad_partitions_are_refused(keyed, partitions):
    with pytest.raises(BadOption, match="partitions must be a whole number above zero"):
        keyed.table("totals", COUNT, partitions=partitions)


@pytest.mark.parametrize("on_error", ["rejct", None, "", True])
def test_a_bad_on_error_is_refused(keyed, on_error):
    with pytest.raises(BadOption, match="on_error must be one of: reject, fail"):
        keyed.table("totals", COUNT, on_error=on_error)


def test_a_refused_table_leaves_its_name_free(keyed):
    with pytest.raises(BadOption):
        keyed.table("totals", COUNT, partitions=0)
    assert keyed.app.spec().tables == ()
    keyed.table("totals", COUNT)


def test_sinks_are_added_in_order_and_the_table_returned(keyed):
    made = keyed.table("totals", COUNT)
    first, second = kf.files("out", format="parquet"), kf.spark("delta", "lake")
    assert made.to(first).to(second) is made
    assert made.spec.sinks == (("files-out", first), ("spark-delta-lake", second))
    assert keyed.app.spec().tables == (made.spec,)


def test_the_order_of_tables_is_that_of_declaration_whatever_sinks_come_later(keyed):
    first = keyed.table("first", COUNT)
    keyed.table("second", COUNT)
    first.to(kf.spark("console"))
    assert [table.name for table in keyed.app.spec().tables] == ["first", "second"]


@pytest.mark.parametrize("sink", [kf.rate(), kf.rows([]), kf.files("out/*.json"), "out", None])
def test_what_cannot_be_written_to_is_no_sink(keyed, sink):
    with pytest.raises(BadOption, match=r"where: shop\.totals"):
        keyed.table("totals", COUNT).to(sink)


def test_the_same_sink_twice_is_refused(keyed):
    made = keyed.table("totals", COUNT).to(kf.files("out"))
    with pytest.raises(
        BadOption, match=r"already has a sink named 'files-out'\n  where: shop\.totals"
    ) as error:
        made.to(kf.files("out", format="parquet"))
    assert error.value.given == "files parquet out; the other one is files json out"
    made.to(kf.files("out", format="parquet"), name="again")
    with pytest.raises(BadOption, match="already has a sink named 'again'"):
        made.to(kf.files("elsewhere"), name="Again")
    assert [name for name, _ in made.spec.sinks] == ["files-out", "again"]


def test_a_sink_is_named_by_its_kind_and_address(keyed):
    topic = {"options": {"kafka.sasl.username": "me", "kafka.sasl.password": "geheim"}}
    names = {
        "kafka-totals": kf.kafka("a:9092,b:9092", topic="totals", **topic),
        "files-out": kf.files("./out/"),
        "files-data-out-34ca0c2b": kf.files("/data/out"),
        "files-out-59041eb3": kf.files("Out"),
        "files-s3a-bucket-out-bc54c7cc": kf.files("s3a://me:geheim@bucket/out"),
        "spark-console": kf.spark("console"),
        "spark-delta-lake": kf.spark("delta", "lake"),
        "spark-jdbc": kf.spark("jdbc", url="jdbc:x://h/db?password=geheim", dbtable="t"),
    }
    for at, sink in enumerate(names.values()):
        keyed.table(f"t{at}", COUNT).to(sink)
    found = [table.sinks[0][0] for table in keyed.app.spec().tables]
    assert found == list(names)
    long = [
        keyed.table(f"l{n}", COUNT).to(kf.files(f"/a/{'b' * 300}/{n}/out")).spec.sinks[0][0] for n in "12"
    ]
    assert all(len(name) < 80 and name.startswith("files-") for name in long)
    assert long[0] != long[1]
    # With another login it is the same address.
    other = keyed.table("other", COUNT).to(kf.files("s3a://you:neu@bucket/out"))
    assert other.spec.sinks[0][0] == "files-s3a-bucket-out-bc54c7cc"


@pytest.mark.parametrize("name", ["history", "History", "7", "", ".x", "-x", "a/b", "a b", "ä", "x" * 101])
def test_a_name_that_is_no_file_name_is_refused(keyed, name):
    with pytest.raises(
        BadName, match=r"(?s)is not allowed as the name of a sink: .*where: shop\.totals.*try: name="
    ):
        keyed.table("totals", COUNT).to(kf.files("out"), name=name)


def test_a_name_is_text(keyed):
    with pytest.raises(BadOption, match="the name of a sink must be a string"):
        keyed.table("totals", COUNT).to(kf.files("out"), name=3)


def test_plans_are_equal_wherever_their_lines_stand():
    def declare():
        app = kf.App("shop")
        stream = app.stream("orders", kf.rows([{"a": [1]}]), schema="a array<int>")
        stream.where("true").by("a").table("totals", n="count(*)")
        return app.spec()

    first, second = declare(), declare()
    assert first == second
    assert hash(first) == hash(second)


@pytest.mark.parametrize(
    ("declare", "problem"),
    [
        (lambda s: s.join(s, within="1 hour"), r"(?s)join needs on=.*try: on="),
        (lambda s: s.by("region").top(3), r"(?s)top needs by=.*try: top\(10, by="),
        (lambda s: s.by("region").sliding("1 hour"), r"(?s)sliding needs every=.*every=\"5 minutes\""),
        (lambda s: s.by("region").process("p", dict), r"(?s)process needs output=.*try: output="),
    ],
)
def test_an_argument_that_is_left_out_is_named_with_an_example(declare, problem):
    app = kf.App("shop")
    stream = app.stream("orders", kf.rows([]), "region string, at timestamp", time="at")
    with pytest.raises(BadOption, match=problem) as caught:
        declare(stream)
    assert "test_tables.py:" in str(caught.value)


def test_an_option_that_no_version_will_have_is_a_column(keyed):
    assert [name for name, _ in keyed.table("totals", order="max(amount)").spec.columns] == ["order"]


def test_only_options_of_the_design_are_reserved():
    planned = {"budget", "max_keys"}
    assert set(RESERVED) - set(SUPPORTED) == planned


def test_private_columns_are_columns_of_the_table_and_not_of_its_key():
    orders = kf.App("shop").stream("orders", kf.rows([]), "region string, email string")
    made = orders.by("region").table("totals", n="count(*)", email="max(email)", private=["EMAIL", "email"])
    assert made.spec.private == ("email",)
    for given, said in (
        (["region"], "a key can't be private"),
        (["emial"], "did you mean 'email'?"),
        ("email", "private takes a list of columns"),
        (["a b"], "a private column"),
    ):
        with pytest.raises(ValueError, match=re.escape(said)):
            orders.by("region").table("other", email="max(email)", private=given)


def test_private_columns_of_a_top_n_are_checked_when_its_columns_are_known():
    fields = [{"name": name, "type": "string"} for name in ("region", "Email")]
    found = ViewSchema.from_spark("top", 1, {"fields": fields}, private=("email",))
    assert (found.private, ViewSchema.from_json("top", found.to_json())) == (("Email",), found)
    with pytest.raises(BadName, match="no column 'emial' to be private"):
        ViewSchema.from_spark("top", 1, {"fields": fields}, private=("emial",))
