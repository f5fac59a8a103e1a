"""Schemas in DDL that Spark accepts; a test of `tests/engine/rows` asks it."""

VALID = [
    "a boolean, b tinyint, c byte, d smallint, e short, f int, g integer, h bigint, i long",
    "a float, b real, c double, d decimal, e dec, f numeric, g decimal(4), h dec(5, 2), i numeric ( 38 , 0 )",
    "a string, b char(3), c character(3), d varchar(4), e binary, f variant, g void",
    "a date, b timestamp, c timestamp_ntz, d timestamp_ltz, e time, f time(3)",
    "a timestamp without time zone, b timestamp with local time zone, c time(3) without time zone",
    "a timestamp(6), b timestamp_ntz(6) not null, c geometry(4326), d geometry(any), e geography(4326)",
    "a interval, b interval year, c interval year to month, d interval day to second, e interval second",
    "a string collate UTF8_LCASE, b array<string collate unicode>, c char(3) collate unicode comment 'x'",
    "a array<int>, b array < array<map<string,struct<a:array<int>>>> >, c map < int , string >",
    "a struct<x: int, y string not null comment 'z', `p q`:decimal(3,2)>, b struct<>, c STRUCT<A INT>",
    "a int not null, b Decimal(3,2) not null comment 'a, b', c int not  null",
    "a int comment 'x', b int comment \"x\", c int comment 'it\\'s'",
    "a int comment 'it''s', b int comment r'\\'",
    "a struct<b: int comment '>, c strin'>, d int comment ') strin'",
    "a: int, b :string, c: array<int>",
    "`a b` int, `a``b` strinG, `strin` string, 1a int, select int, date date, interval interval, not int",
    "a int -- in euros, as strin\n, b int /* , c strin */, -- the last one\n d string",
    "\n  id string,\n  at timestamp\n",
]
