"""What is PostgreSQL's own: tables as others see them, changes by hand, rights, what stays in files."""

from __future__ import annotations

import gc
import json
import math
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from keyfold.cli.main import main
from keyfold.engine.polling import wait_until
from keyfold.errors import BadName, HomeUnusable, QueryError, RunError
from keyfold.views import stores
from keyfold.views.contract import Column, Location, ViewSchema, ViewStore
from keyfold.views.postgresql import address as addresses
from keyfold.views.postgresql import failures, temporal_text
from keyfold.views.postgresql.database import PostgresViews
from keyfold.views.query.filters import OneOf
from keyfold.views.types.parse import parse
from tests.postgres import PASSWORD, SECURED, Server

AT = datetime(2026, 1, 1, 12, tzinfo=UTC)


def columns(**types: Any) -> tuple[Column, ...]:
    return tuple(Column(name, parse(kind)) for name, kind in types.items())


TOTALS = ViewSchema("Totals", columns(region="string"), columns(n="long", Revenue="double"), help="50% of it")


def write(store: ViewStore, schema: ViewSchema, batch: int, *rows: tuple[Any, ...]) -> None:
    arrays = [
        pa.array([row[i] for row in rows], field.type) for i, field in enumerate(list(schema.arrow)[1:])
    ]
    operations = pa.array(["upsert"] * len(rows))
    with store.batch(schema.table, batch, AT) as writer:
        writer.apply(pa.RecordBatch.from_arrays([operations, *arrays], schema=schema.arrow))


@pytest.fixture
def located(postgres: Server, tmp_path: Path) -> Callable[..., PostgresViews]:
    def at(user: str | None = None, address: str | None = None, app: str = "shop") -> PostgresViews:
        found = address or postgres.address(user)
        home = f"file://{tmp_path}/{app}"
        views = stores.views_at(Location(stores.address_of(found), app, home, tmp_path / app))
        assert isinstance(views, PostgresViews)
        return views

    return at


@pytest.fixture
def views(located: Callable[..., PostgresViews]) -> PostgresViews:
    return located()


@pytest.fixture
def store(views: PostgresViews) -> Iterator[ViewStore]:
    with views.open(read_only=False) as store:
        store.create(TOTALS)
        write(store, TOTALS, 0, ("eu", 1, 1.5), ("us", 2, None))
        yield store


class TestForOthers:
    def test_a_view_is_a_table_with_typed_columns(
        self, postgres: Server, views: PostgresViews, store: ViewStore
    ) -> None:
        every = ViewSchema(
            "every",
            columns(k="string", tags={"type": "array", "elementType": "string"}),
            columns(
                small="byte", whole="integer", single="float", price="decimal(10,2)", ok="boolean",
                raw="binary", day="date", at="timestamp", local="timestamp_ntz", clock="time(6)",
                took="interval day to second", months="interval year to month",
                fields={"type": "map", "keyType": "string", "valueType": "long"}, nothing="void",
            ),
        )  # fmt: skip
        store.create(every)
        found = postgres.sql(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
            f"WHERE attrelid = '{views.schema}.every'::regclass AND attnum > 0 ORDER BY attnum"
        )
        assert dict(found) == {
            "k": "text", "tags": "text", "small": "smallint", "whole": "integer", "single": "real",
            "price": "numeric(10,2)", "ok": "boolean", "raw": "bytea", "day": "date",
            "at": "timestamp with time zone", "local": "timestamp without time zone",
            "clock": "time without time zone", "took": "bigint", "months": "integer", "fields": "json",
            "nothing": "smallint", "_batch": "bigint", "_at": "timestamp with time zone",
        }  # fmt: skip

    def test_sql_reads_the_rows_and_the_position_in_any_case(
        self, postgres: Server, views: PostgresViews, store: ViewStore
    ) -> None:
        rows = postgres.sql(f"SELECT Region, REVENUE, _batch, _at FROM {views.schema}.Totals ORDER BY region")
        assert rows == [("eu", 1.5, 0, AT), ("us", None, 0, AT)]
        assert postgres.sql(f"SELECT view, batch FROM {views.schema}._keyfold_views") == [("Totals", 0)]
        assert postgres.sql(f"SELECT obj_description('{views.schema}.totals'::regclass)") == [("50% of it",)]
        assert str(views).startswith("postgresql://")
        assert views.schema in views.name

    def test_views_on_a_table_and_rights_outlive_a_rebuild_with_the_same_columns(
        self, postgres: Server, views: PostgresViews, store: ViewStore
    ) -> None:
        postgres.sql(f"CREATE VIEW public.top AS SELECT region FROM {views.schema}.totals")
        try:
            store.rebuild("Totals", TOTALS, (), 1, AT)
            assert postgres.sql("SELECT * FROM public.top") == []
            other = ViewSchema("Totals", TOTALS.keys, columns(n="string"))
            with pytest.raises(RunError, match=r"(?s)depend.*try: drop what depends on the table.*view top"):
                store.rebuild("Totals", other, (), 2, AT)
            assert store.schema("Totals") == TOTALS
            with pytest.raises(RunError, match="depend"):
                views.remove()
            assert store.tables() == ("Totals",)
        finally:
            postgres.sql("DROP VIEW public.top")
        store.rebuild("Totals", other, (), 2, AT)
        assert store.schema("Totals") == other

    def test_names_that_postgresql_cannot_have_are_changed(self, store: ViewStore) -> None:
        long = "x" * 100
        odd = ViewSchema(
            "t%s" + long,
            columns(xmin="string"),
            columns(**{long + "1": "long", long + "2": "long", "50%": "long"}),
        )
        store.create(odd)
        write(store, odd, 0, ("k", 1, 2, 3))
        assert store.get(odd.table, ["k"]) == {
            "xmin": "k", long + "1": 1, long + "2": 2, "50%": 3, "_batch": 0, "_at": AT
        }  # fmt: skip
        assert store.count(odd.table, "`50%` = 3") == 1
        assert odd.table in store.tables()
        with pytest.raises(BadName):
            store.create(ViewSchema("_keyfold_views", TOTALS.keys, ()))
        with pytest.raises(RunError, match="the view is named Totals, the table totals"):
            store.create(ViewSchema("totals", TOTALS.keys, TOTALS.columns))


class TestValues:
    def test_strings_keep_every_character_and_their_order(self, store: ViewStore) -> None:
        schema = ViewSchema("texts", columns(k="string"), columns(v="string"))
        store.create(schema)
        texts = [
            "",
            "\0",
            "\0\0",
            "\0a",
            "\x01",
            "\x01\x02",
            "\x02",
            "A",
            "a",
            "a\0b",
            "a\x01b",
            "a\nb",
            "é",
            "𝄞",
        ]
        write(store, schema, 0, *((text, text) for text in reversed(texts)))
        assert [row["k"] for row in store.scan("texts")] == texts
        assert [row["k"] for row in store.scan("texts", order_by="v desc")] == texts[::-1]
        for text in texts:
            assert store.get("texts", [text]) == {"k": text, "v": text, "_batch": 0, "_at": AT}
            assert [row["v"] for row in store.scan("texts", {"v": text})] == [text]
        three = ["a\0b", "a\x01b", "a\nb"]
        for pattern, found in {
            "a_b": three,
            "a%b": three,
            "a\0%": ["a\0b"],
            "_": ["\0", "\x01", "\x02", "A", "a", "é", "𝄞"],
            "a\\": [],
            "%\0": ["\0", "\0\0"],
        }.items():
            assert [row["v"] for row in store.scan("texts", f"v like '{pattern}'")] == found, repr(pattern)

    @pytest.mark.parametrize(
        "text", ["a.b", "a+", "[a]", "(a", "a\\", "a|b", "^a$", "{1}", "a%", "a_", "a b", "é*"]
    )
    def test_a_pattern_is_no_regular_expression(self, store: ViewStore, text: str) -> None:
        schema = ViewSchema("texts", columns(k="string"), ())
        store.create(schema)
        write(store, schema, 0, (f"{text}x",), ("other",))
        plain = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        for pattern in (f"{plain}_", f"{plain}%"):
            assert [row["k"] for row in store.scan("texts", f"k like '{pattern}'")] == [f"{text}x"]

    def test_times_of_all_years_that_postgresql_has(self, store: ViewStore) -> None:
        schema = ViewSchema("times", columns(k="long"), columns(at="timestamp", day="date"))
        store.create(schema)
        days = [-2_440_588, -719_529, -719_163, -719_162, -1, 0, 2_932_896, 2_932_897, 2_145_042_905]
        micros = [day * 86_400_000_000 for day in days[:-1]]
        micros += [2**63 - 1]
        some = pa.RecordBatch.from_arrays(
            [
                pa.array(["upsert"] * 9),
                pa.array(range(9)),
                pa.array(micros).cast(pa.timestamp("us", "UTC")),
                pa.array(days, pa.int32()).cast(pa.date32()),
            ],
            schema=schema.arrow,
        )
        with store.batch("times", 0, AT) as writer:
            writer.apply(some)
        at, day = schema.columns
        rows = list(store.scan("times", order_by="at"))
        assert [row["at"] for row in rows] == [at.type.to_python(value) for value in micros]
        assert [row["day"] for row in rows] == [day.type.to_python(value) for value in days]
        for row in rows:
            assert [one["k"] for one in store.scan("times", {"at": row["at"], "day": row["day"]})] == [
                row["k"]
            ]
        assert store.count("times", "at > '-290308-12-21T19:59:05.224192Z'") == 9
        for name, value, shown in (("at", -(2**63), "-290308-12-21"), ("day", 2**31 - 1, "+5881580-07-11")):
            column = some.column(schema.arrow.get_field_index(name)).cast(
                pa.int64() if name == "at" else pa.int32()
            )
            far = pa.array([value] * 9, column.type).cast(schema.arrow.field(name).type)
            with (
                pytest.raises(RunError, match=rf"(?s)no such year.*where: times, batch 1.*{shown[1:]}"),
                store.batch("times", 1, AT) as writer,
            ):
                writer.apply(some.set_column(schema.arrow.get_field_index(name), name, far))
        assert temporal_text.DATES.literal(-(2**31)) == "-infinity"

    def test_an_integer_is_compared_with_a_float_without_rounding(self, store: ViewStore) -> None:
        schema = ViewSchema("mixed", columns(k="long"), columns(n="long", x="double"))
        store.create(schema)
        big = 2**53
        pairs = [
            (big + 1, float(big)), (big, float(big)), (2**63 - 1, float(2**63)), (-(2**63), -float(2**63)),
            (1, 1.5), (1, math.nan), (1, math.inf), (1, -math.inf), (0, -0.0), (None, 1.0), (1, None),
        ]  # fmt: skip
        write(store, schema, 0, *((i, *pair) for i, pair in enumerate(pairs)))

        def expected(test: Callable[[Any, Any], bool]) -> list[int]:
            known = [(i, n, x) for i, (n, x) in enumerate(pairs) if None not in (n, x)]
            return [i for i, n, x in known if test(n, math.inf if x != x else x)]

        def found(where: str) -> list[int]:
            return [row["k"] for row in store.scan("mixed", where)]

        assert found("n = x") == found("x = n") == expected(lambda n, x: n == x)
        assert found("n < x") == found("x > n") == expected(lambda n, x: n < x)
        assert found("n >= x") == found("x <= n") == expected(lambda n, x: n >= x)
        assert found("n <> x") == expected(lambda n, x: n != x)

    def test_a_key_that_is_too_long_for_an_index_is_said(self, store: ViewStore) -> None:
        import random

        noise = "".join(chr(random.Random(7).randrange(33, 0x2000) + i % 7) for i in range(9000))
        long = "".join(random.Random(8).sample(noise, 9000))
        with pytest.raises(RunError, match=r"(?s)where: Totals, batch 1.*keys of up to 2,700 bytes"):
            write(store, TOTALS, 1, (long, 1, 1.0))


class TestByHand:
    @pytest.mark.parametrize(
        ("change", "says"),
        [
            ("ALTER TABLE {} DROP COLUMN n", "column n is missing, not bigint"),
            ("ALTER TABLE {} ALTER n TYPE text", "column n is text, not bigint"),
            ("ALTER TABLE {} RENAME TO other", "it is missing"),
        ],
    )
    def test_a_table_that_was_altered_is_refused_at_a_start_and_rebuilt(
        self, postgres: Server, views: PostgresViews, store: ViewStore, change: str, says: str
    ) -> None:
        postgres.sql(change.format(f"{views.schema}.totals"))
        with pytest.raises(
            RunError, match=rf"(?s)was changed by hand: {says}.*totals.*try: undo the change"
        ) as caught:
            store.create(TOTALS)
        assert stores.damage_advice(str(caught.value)) == failures.RECOVERY
        store.rebuild("Totals", TOTALS, (), 1, AT)
        write(store, TOTALS, 2, ("eu", 5, 5.0))
        assert store.count("Totals") == 1

    def test_a_running_app_says_what_happened(
        self, postgres: Server, views: PostgresViews, store: ViewStore
    ) -> None:
        postgres.sql(f"ALTER TABLE {views.schema}.totals DROP COLUMN n")
        with pytest.raises(
            RunError, match=r"(?s)changed by hand.*where: Totals, batch 1.*try: undo the change"
        ):
            write(store, TOTALS, 1, ("eu", 5, 5.0))
        with pytest.raises(QueryError, match=r"(?s)changed by hand.*try: undo the change") as caught:
            store.scan("Totals")
        assert caught.value.reason == "not_ready"
        postgres.sql(f"DROP TABLE {views.schema}.totals")
        with pytest.raises(QueryError, match="changed by hand"):
            store.get("Totals", ["eu"])
        postgres.sql(f"UPDATE {views.schema}._keyfold_views SET schema = '[]'")
        with pytest.raises(RunError, match="its schema in _keyfold_views can't be read"):
            store.create(TOTALS)
        views.remove()
        assert not views.exists()

    def test_what_lies_beside_the_views_stays_and_damaged_views_go(
        self, postgres: Server, views: PostgresViews, store: ViewStore
    ) -> None:
        postgres.sql(f"CREATE SEQUENCE {views.schema}.own", f"DROP TABLE {views.schema}._keyfold_views")
        assert not views.exists()
        with pytest.raises(QueryError, match="there are no views yet"):
            store.tables()
        views.remove()
        assert postgres.sql(
            f"SELECT relname FROM pg_class WHERE relnamespace = '{views.schema}'::regnamespace"
        ) == [("own",)]
        with views.open(read_only=False) as again:
            again.create(TOTALS)
            assert again.count("Totals") == 0


@pytest.fixture(scope="module")
def roles(postgres: Server) -> None:
    postgres.sql("CREATE ROLE writer LOGIN", "CREATE ROLE reader LOGIN")


@pytest.mark.usefixtures("roles")
class TestRights:
    def test_what_ddl_prints_is_enough_for_a_writer_and_for_a_reader(
        self,
        postgres: Server,
        located: Callable[..., PostgresViews],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        writer, reader = located("writer"), located("reader")
        with pytest.raises(RunError, match=r"(?s)permission denied.*keyfold views ddl"):
            writer.open(read_only=False)
        monkeypatch.setenv("KEYFOLD_VIEWS", postgres.address("writer"))
        roles = ["--writer", "writer", "--reader", "reader"]
        command = ["views", "ddl", "shop", *roles, "--home", str(tmp_path)]
        assert main(command) == 0
        script = capsys.readouterr().out
        assert f'CREATE SCHEMA "{writer.schema}" AUTHORIZATION "writer";' in script
        postgres.sql("REVOKE TEMPORARY ON DATABASE postgres FROM PUBLIC", script)
        with writer.open(read_only=False) as store, reader.open(read_only=True) as reading:
            store.create(TOTALS)
            write(store, TOTALS, 0, ("eu", 1, 1.0))
            store.rebuild("Totals", ViewSchema("Totals", TOTALS.keys, ()), (), 0, AT)
            store.rebuild("Totals", TOTALS, (), 0, AT)
            write(store, TOTALS, 1, ("eu", 1, 1.0))
            assert reading.count("Totals") == 1
            assert len(store.compare(TOTALS, (), None, 5)) == 1
            store.purge()
            assert main([*command, "--json"]) == 0
            tables = json.loads(capsys.readouterr().out)["tables"]
            assert '"revenue" double precision' in tables[1]
            with pytest.raises(RunError, match="must be owner"), reader.open(read_only=False) as other:
                other.drop("Totals")
        writer.remove()
        assert not writer.exists()
        writer.open(read_only=False).close()

    def test_a_password_is_asked_for_where_it_can_be_and_never_shown(
        self,
        postgres: Server,
        located: Callable[..., PostgresViews],
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
    ) -> None:
        plain = postgres.address(SECURED)
        monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
        monkeypatch.setattr(addresses, "_known", {})
        with pytest.raises(HomeUnusable, match=r"(?s)password.*PGPASSWORD"):
            located(address=plain).open(read_only=False)
        with pytest.raises(QueryError, match=r"(?s)password.*pgpass"):
            located(address=plain).exists()
        setting = plain.replace(SECURED, f"{SECURED}:s3%20cret")
        alias = setting.replace("postgresql", "postgres", 1)
        for variable, value in (
            ("PGPASSWORD", PASSWORD),
            ("KEYFOLD_VIEWS", setting),
            ("KEYFOLD_VIEWS", alias),
        ):
            with monkeypatch.context() as patched:
                patched.setenv(variable, value)
                located(address=plain).open(read_only=False).close()
        wrong = located(address=setting.replace("s3%20cret", "geheim").replace("/postgres", "/template1"))
        with pytest.raises(HomeUnusable, match="password") as caught:
            wrong.open(read_only=False)
        assert "geheim" not in f"{caught.value} {caught.value.__cause__} {wrong} {wrong.location}"
        views = located(address=setting)
        assert views.location.address == plain
        views.open(read_only=False).close()

    def test_doctor_says_what_is_wrong_with_the_database(
        self, postgres: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        setting = postgres.address(SECURED).replace(SECURED, f"{SECURED}:geheim")
        ok, found, do = stores.condition(setting)
        assert (ok, "password authentication failed" in found, "PGPASSWORD" in str(do)) == (False, True, True)
        ok, found, do = stores.condition(postgres.address())
        assert (ok, found.split(",")[0][:11], do) == (True, "PostgreSQL ", None)
        assert stores.condition("none") == (True, "none", None)

    def test_a_database_of_another_encoding_is_refused(
        self, postgres: Server, located: Callable[..., PostgresViews]
    ) -> None:
        postgres.sql("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
        with pytest.raises(HomeUnusable, match=r"(?s)can't hold all text.*LATIN1.*--encoding=UTF8"):
            located(address=postgres.address(database="latin")).open(read_only=False)
        with pytest.raises(HomeUnusable, match=r"(?s)does not exist.*createdb"):
            located(address=postgres.address(database="none")).open(read_only=False)

    def test_without_the_client_the_command_that_installs_it_is_given(
        self, views: PostgresViews, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(__import__("sys").modules, "psycopg", None)
        for use in (views.exists, lambda: views.open(read_only=False)):
            with pytest.raises(HomeUnusable, match=r'pip install "keyfold\[postgresql\]"'):
                use()


def test_nothing_of_an_erased_row_is_left_in_the_files_of_the_table(
    postgres: Server, views: PostgresViews, store: ViewStore
) -> None:
    names = {"secret-7", "secret-8"}
    write(store, TOTALS, 1, *((name, 1, 1.0) for name in sorted(names)))

    def found() -> bool:
        postgres.sql("CHECKPOINT")
        return any(
            b"secret" in path.read_bytes()
            for path in (postgres.data / "base").rglob("[0-9]*")
            if path.is_file()
        )

    assert found()
    store.erase("Totals", OneOf(TOTALS.keys[0], tuple(names)), 2)
    assert not found()
    assert store.count("Totals") == 2


def test_a_commit_is_durable_and_waits_for_its_rows_whatever_the_server_says(
    postgres: Server, views: PostgresViews
) -> None:
    limits = ("statement_timeout", "idle_in_transaction_session_timeout")
    postgres.sql(
        "ALTER DATABASE postgres SET synchronous_commit = off",
        *(f"ALTER DATABASE postgres SET {name} = '1s'" for name in limits),
    )
    try:
        with closing(views.open(read_only=False)) as store, store._pool.use("BEGIN") as connection:
            assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)
            assert connection.execute("SHOW TimeZone").fetchone() == ("UTC",)
            assert {connection.execute(f"SHOW {name}").fetchone() for name in limits} == {("0",)}
    finally:
        postgres.sql("ALTER DATABASE postgres RESET ALL")


def test_a_batch_that_two_processes_write_is_applied_once(views: PostgresViews, store: ViewStore) -> None:
    def change(region: str) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist(
            [{"_op": "upsert", "region": region, "n": 1, "Revenue": None}], schema=TOTALS.arrow
        )

    with views.open(read_only=False) as other:
        with store.batch("Totals", 1, AT) as first:
            first.apply(change("first"))
            with other.batch("Totals", 1, AT) as second:
                second.apply(change("second"))
        assert (first.replayed, second.replayed) == (True, False)
        assert [row["region"] for row in other.scan("Totals")] == ["eu", "second", "us"]


def test_a_store_that_nobody_closes_leaves_no_session(postgres: Server, views: PostgresViews) -> None:
    def sessions() -> int:
        ((number,),) = postgres.sql(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'keyfold lost'"
        )
        return int(number)

    lost = replace(views, location=replace(views.location, app="lost")).open(read_only=True)
    with pytest.raises(QueryError):
        lost.tables()
    assert sessions() == 1
    del lost
    gc.collect()
    assert wait_until(lambda: sessions() == 0, 10)


def test_a_page_by_key_begins_at_its_key_in_the_index(
    postgres: Server, store: ViewStore, views: PostgresViews
) -> None:
    from keyfold.views.postgresql.sql import ViewTable
    from keyfold.views.query import filters
    from keyfold.views.query.cursor import Keyset

    write(store, TOTALS, 1, *((f"k{i:05d}", i, None) for i in range(5000)))
    keyset = Keyset(TOTALS, filters.whole_order(None, TOTALS), filters.All(()))
    selection = ViewTable(views.schema, TOTALS).rows(
        keyset.after(keyset.cursor({"region": "k02500"})), None, 3, None
    )
    postgres.sql(f"ANALYZE {views.schema}.totals")
    with psycopg.connect(postgres.address()) as connection:
        plan = "\n".join(line for (line,) in connection.execute(f"EXPLAIN {selection.sql}", selection.params))
    assert "Index Scan using totals_pkey" in plan
    assert "Sort" not in plan
