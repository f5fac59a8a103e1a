"""Tables of whole rows, tables that a processor fills and tables of two tables, as they are declared."""

import pytest

import keyfold as kf
from keyfold.errors import BadDuration, BadExpression, BadName, BadOption, DeclarationError, NameTaken
from keyfold.plan.nodes import Changes, Enrich, ProcessSpec, Select, TableSpec, TopSpec
from keyfold.plan.table_keys import key_names
from keyfold.plan.tree import reads

COUNT = {"n": "count(*)"}
LINE = r"test_top_n\.py:\d+"
OUTPUT = "region string, score double"


class Processor:
    def handleInputRows(self, key, rows, timerValues):
        return iter(())


class Needy(Processor):
    def __init__(self, bound):
        self.bound = bound


@pytest.fixture
def orders(app):
    schema = "id string, region string, amount double, at timestamp"
    return app.stream("orders", kf.rows([]), schema, time="at")


@pytest.fixture
def keyed(orders):
    return orders.by("region")


@pytest.fixture
def totals(keyed):
    return keyed.table("totals", COUNT)


@pytest.fixture
def names(app):
    news = app.stream("news", kf.rows([]), "code string, name string")
    return news.by("code").table("names", name="max(name)")


def test_a_top_table_has_whole_rows_in_an_order(keyed, orders):
    made = keyed.top(3, by="amount desc").table("highest", ttl="1 day", help="Most")
    assert made.spec == TableSpec(
        "shop", "highest", orders.node, (("region", "region"),), TopSpec(3, "amount desc"),
        ttl_ms=86_400_000, help="Most",
    )  # fmt: skip
    assert str(made.spec.body.site).startswith("test_top_n.py:")
    assert key_names(made.spec) == ("region", "rank")


def test_the_latest_row_of_a_key_has_no_rank(keyed):
    made = keyed.latest().table("newest", amount="amount * 2", rank="id")
    assert made.spec.body == TopSpec(1, None, (("amount", "amount * 2"), ("rank", "id")))
    assert key_names(made.spec) == ("region",)


def test_ranks_are_shown(keyed):
    assert repr(keyed.top(3, by="amount desc")) == "<stream orders of shop by region, top 3 by amount desc>"
    assert repr(keyed.latest()) == "<stream orders of shop by region, latest row>"


@pytest.mark.parametrize("n", [0, -1, 1.5, "3", True, None])
def test_a_bad_number_of_rows_is_refused(keyed, n):
    with pytest.raises(BadOption, match=rf"(?s)n of top must be a whole number.*shop\.orders, {LINE}"):
        keyed.top(n, by="amount")


@pytest.mark.parametrize("by", ["", "  ", 3, ["amount"], lambda: None])
def test_the_order_of_a_top_table_is_sql(keyed, by):
    with pytest.raises(BadOption, match=r'(?s)by= of top .*try: top\(10, by="price desc"\)'):
        keyed.top(3, by=by)


def test_windows_and_ranks_are_refused_together_with_both_lines(keyed):
    windowed, ranked = keyed.tumbling("1 hour"), keyed.top(3, by="amount")
    for declare, what, has in (
        (lambda: windowed.top(3, by="amount"), "top", "already windowed, tumbling 1 hour"),
        (lambda: windowed.latest(), "latest", "already windowed, tumbling 1 hour"),
        (lambda: ranked.tumbling("1 hour"), "tumbling", "already keeps top 3 by amount"),
        (lambda: keyed.latest().last(3), "last", "already keeps latest row"),
        (lambda: ranked.latest(), "latest", "already keeps top 3 by amount"),
        (lambda: windowed.process("p", Processor, output=OUTPUT), "process", "already windowed"),
        (lambda: ranked.process("p", Processor, output=OUTPUT), "process", "already keeps"),
    ):
        with pytest.raises(
            BadOption, match=rf"(?s){what} is not supported here: .*{has}.*declared at {LINE}"
        ):
            declare()


def test_a_fold_is_no_column_of_a_whole_row(keyed):
    fold = kf.fold(zero={"v": "0"}, update={"v": "1"})
    for ranked in (keyed.top(3, by="amount"), keyed.latest()):
        with pytest.raises(
            BadOption, match=rf"(?s)column 'f' is a fold, and .* keeps rows.*kf\.fold.*{LINE}"
        ):
            ranked.table("t", f=fold)


def test_the_name_of_the_rank_is_taken_in_top_tables(keyed, orders):
    with pytest.raises(BadName, match="column 'Rank' has the name of a column that every top-N table has"):
        keyed.top(3, by="amount").table("t", Rank="amount")
    with pytest.raises(BadName, match="key 'rank' has the name"):
        orders.by(rank="1").top(3, by="amount").table("t")
    ranked = orders.app.stream("ranked", kf.rows([]), "region string, RANK int").where("true").by("region")
    with pytest.raises(BadName, match="column 'RANK' has the name"):
        ranked.top(3, by="region").table("t")
    assert ranked.top(3, by="region").table("t", place="RANK").spec.columns == (("place", "RANK"),)
    assert ranked.latest().table("newest").spec.columns == ()


def test_options_of_windows_are_refused_for_whole_rows(keyed):
    with pytest.raises(BadOption, match="`emit` needs windows that close"):
        keyed.latest().table("t", emit="final")
    with pytest.raises(BadOption, match="did you mean 'ttl'"):
        keyed.latest().table("t", tll="1 day")


def test_a_processed_table_is_its_processor_and_output(keyed, orders):
    def begin():
        return None

    made = keyed.process(
        "score", Processor, output=f" {OUTPUT}", mode="append", initial=begin, partitions=2, on_error="fail"
    )
    assert made.spec == TableSpec(
        "shop", "score", orders.node, (("region", "region"),),
        ProcessSpec(Processor, OUTPUT, "append", begin), partitions=2, on_error="fail",
    )  # fmt: skip
    assert str(made.spec.site) == str(made.spec.body.site)
    assert made.spec.site.file == __file__


def test_a_processor_is_a_class_or_a_function_that_makes_one(keyed):
    assert keyed.process("made", lambda: Needy(3), output=OUTPUT).spec.body.mode == "update"
    with pytest.raises(
        BadExpression, match=r"(?s)must be a class, not an instance.*try: the class Processor"
    ):
        keyed.process("p", Processor(), output=OUTPUT)
    with pytest.raises(BadExpression, match="processor of process is called without arguments"):
        keyed.process("p", Needy, output=OUTPUT)
    for bad in (None, "Processor", 3):
        with pytest.raises(BadExpression, match="processor of process is not a function"):
            keyed.process("p", bad, output=OUTPUT)


@pytest.mark.parametrize("output", ["", " ", 3, "region", "region string,", "region array<int"])
def test_the_output_of_a_processor_is_ddl(keyed, output):
    with pytest.raises(BadOption, match=rf"(?s)^output .*where: shop\.p, {LINE}"):
        keyed.process("p", Processor, output=output)


def test_the_columns_of_the_output_are_names_and_hold_the_key(keyed):
    with pytest.raises(BadName, match="'_x' is not allowed as the name of a column of output"):
        keyed.process("p", Processor, output="region string, _x string")
    with pytest.raises(BadName, match="output column 'A' is given twice"):
        keyed.process("p", Processor, output="region string, a int, A int")
    with pytest.raises(BadOption, match=r"(?s)by names 'region', .* output.*did you mean 'regions'"):
        keyed.process("p", Processor, output="regions string, score double")
    assert keyed.process("p", Processor, output="REGION string").spec.body.output == "REGION string"


@pytest.mark.parametrize(
    ("more", "mode", "problem"),
    [
        ("seq long", "append", "'seq' is a column that keyfold adds in append mode"),
        ("SEQ long", "append", "'SEQ' is a column that keyfold adds in append mode"),
        ("_op int", "update", "_op must be a string"),
        ("_op string", "append", "_op must be a string"),
    ],
)
def test_columns_that_a_processed_table_has_by_itself_are_refused(keyed, more, mode, problem):
    with pytest.raises(DeclarationError, match=rf"(?s)^{problem}.*where: shop\.p, {LINE}"):
        keyed.process("p", Processor, output=f"{OUTPUT}, {more}", mode=mode)


@pytest.mark.parametrize(("more", "mode"), [("seq long", "update"), ("_op STRING", "update")])
def test_columns_that_a_processed_table_does_not_have_by_itself_can_be_given(keyed, more, mode):
    assert more in keyed.process("p", Processor, output=f"{OUTPUT}, {more}", mode=mode).spec.body.output


def test_the_options_of_a_processor_are_checked(keyed):
    with pytest.raises(BadOption, match=r"(?s)mode of process must be one of: update, append.*'update'"):
        keyed.process("p", Processor, output=OUTPUT, mode="updat")
    with pytest.raises(BadOption, match="initial must be a function"):
        keyed.process("p", Processor, output=OUTPUT, initial=3)
    with pytest.raises(BadOption, match="partitions must be"):
        keyed.process("p", Processor, output=OUTPUT, partitions=0)
    with pytest.raises(BadOption, match="on_error must be one of"):
        keyed.process("p", Processor, output=OUTPUT, on_error="x")
    with pytest.raises(BadOption, match="help must be"):
        keyed.process("p", Processor, output=OUTPUT, help=3)
    assert keyed.app.spec().tables == ()


def test_the_name_of_a_processed_table_is_checked_as_that_of_others(keyed, totals):
    with pytest.raises(NameTaken, match="has the name of a table"):
        keyed.process("Totals", Processor, output=OUTPUT)
    for name in ("my table", "sqlite_t", None):
        with pytest.raises(BadName):
            keyed.process(name, Processor, output=OUTPUT)


def test_a_table_of_two_tables_follows_both(totals, names):
    made = totals.join_table(names, how="left", help="With names", partitions=2)
    node = Enrich(
        Select(Changes("totals"), ((None, "* except (_op)"),)), "names", ("region",), "left", on_update=True
    )
    assert made.spec == TableSpec(
        "shop", "totals_names", node, (("region", "region"),), TopSpec(),
        partitions=2, help="With names",
    )  # fmt: skip
    assert [read.table for read in reads(made.spec.input)] == ["names", "totals"]
    assert str(made.spec.input.site).startswith("test_top_n.py:")


def test_the_key_of_a_table_of_two_is_that_of_the_left(orders, totals, names):
    hourly = orders.by("region").tumbling("1 hour").table("hourly", COUNT)
    assert key_names(hourly.join_table(names, on="region").spec) == ("region", "window_start", "window_end")
    top = orders.by("region").top(3, by="amount").table("top")
    assert key_names(top.join_table(names, "ranked", on="region").spec) == ("region", "rank")
    both = totals.join_table(names)
    assert key_names(both.join_table(names, "again").spec) == ("region",)


def test_a_table_of_two_takes_columns_of_the_left_that_there_are(orders, names):
    per_day = orders.by("region", "id").table("per_day", code="max(id)")
    assert per_day.join_table(names, on="code").spec.input.on == ("code",)
    with pytest.raises(
        BadOption, match=r"(?s)on names 'cod', which is not a column of table 'per_day'.*'code'"
    ):
        per_day.join_table(names, "t", on="cod")
    whole = orders.by("id").latest().table("whole")
    assert whole.join_table(names, on="region").spec.input.on == ("region",)
    scored = orders.by("region").process("scored", Processor, output=OUTPUT)
    with pytest.raises(BadOption, match="not a column of table 'scored'"):
        scored.join_table(names, on="amount")


def test_a_table_of_two_needs_as_many_columns_as_the_right_has_in_its_key(orders, totals, names):
    wide = orders.by("region", "id").table("wide", COUNT)
    with pytest.raises(BadOption, match=r"(?s)on must name 1 column, for the key of table 'names': code"):
        wide.join_table(names)
    with pytest.raises(
        BadOption, match=r"(?s)on must name 2 columns, .* 'wide': region, id.*shop\.totals_wide"
    ):
        totals.join_table(wide)


@pytest.mark.parametrize("how", ["right", "full"])
def test_rows_of_the_right_alone_need_the_whole_key_of_the_left(orders, totals, names, how):
    assert totals.join_table(names, how=how).spec.input.how == how
    wide = orders.by("region", "id").table("wide", code="max(id)")
    with pytest.raises(
        BadOption, match=rf"(?s)a {how} join of tables needs the whole key of 'wide'.*the key is region, id"
    ):
        wide.join_table(names, "t", on="code", how=how)
    pairs = orders.by("id", "region").table("pairs", COUNT)
    assert wide.join_table(pairs, on=["id", "region"], how=how).spec.input.on == ("id", "region")


@pytest.mark.parametrize("how", ["left_anti", "outer", "", None])
def test_the_kind_of_a_join_of_tables_is_checked(totals, names, how):
    with pytest.raises(BadOption, match="how must be one of: inner, left, right, full"):
        totals.join_table(names, how=how)


def test_the_name_of_a_table_of_two_is_checked_as_that_of_others(totals, names):
    totals.join_table(names)
    with pytest.raises(NameTaken, match="table 'totals_names' has the name of a table"):
        totals.join_table(names)
    with pytest.raises(BadName):
        totals.join_table(names, "my table")
    with pytest.raises(BadName):
        totals.join_table(names, "")


def test_only_tables_of_the_same_app_are_joined(totals):
    other = kf.App("other").stream("s", kf.rows([]), "k string").by("k").table("far", COUNT)
    with pytest.raises(
        BadOption, match="join_table takes tables of the same app, and 'far' belongs to app 'other'"
    ):
        totals.join_table(other)
    for bad in (None, "names", totals.changes()):
        with pytest.raises(BadOption, match=rf"(?s)join_table takes a table.*where: shop\.totals, {LINE}"):
            totals.join_table(bad)


def test_a_refused_table_of_two_leaves_its_name_free(totals, names):
    with pytest.raises(BadOption):
        totals.join_table(names, partitions=0)
    totals.join_table(names)


@pytest.mark.parametrize("kind", ["running", "windows", "top", "latest", "process", "two"])
def test_every_table_has_changes(keyed, totals, names, kind):
    made = {
        "running": lambda: totals,
        "windows": lambda: keyed.session("1 hour").table("t", COUNT),
        "top": lambda: keyed.top(3, by="amount").table("t"),
        "latest": lambda: keyed.latest().table("t"),
        "process": lambda: keyed.process("t", Processor, output=OUTPUT),
        "two": lambda: totals.join_table(names, "t"),
    }[kind]()
    for previous in (False, True):
        stream = made.changes(previous=previous)
        assert stream.node == Changes(made.name, previous)
        assert str(stream.node.site).startswith("test_top_n.py:")
        assert stream.name == made.name


def test_previous_is_yes_or_no(totals):
    with pytest.raises(BadOption, match=rf"(?s)previous must be True or False.*where: shop\.totals, {LINE}"):
        totals.changes(previous="yes")


def test_a_bad_ttl_of_whole_rows_is_refused(keyed):
    with pytest.raises(BadDuration, match="ttl"):
        keyed.latest().table("t", ttl=5)
