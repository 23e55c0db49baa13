"""Partitions of each database: grouped and named by its SQL, they are those of the canonical texts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import pytest

from integration.source.places import Place, at
from tidegate.core.fingerprint import Fingerprint, row_text
from tidegate.core.grouping import CHARACTERS, Grouping, Period, Periods, Prefixes, Steps
from tidegate.core.slices import Everything, Range, Slice
from tidegate.errors import SchemaRefused
from tidegate.sources.database import probe

NUMBERS = (-1001, -1000, -1, 0, 5, 999, 1000, None)
DAYS = ("0001-01-01", "0001-12-31", "1582-10-10", "1969-12-31", "2024-02-29", "2024-03-10", "2024-12-30", "2025-01-05")
DAYS += ("2025-01-06", "2025-03-31", "2025-04-01", "2025-11-02", "9999-12-26", "9999-12-31")
TIMES = ("00:00:00.000000", "04:59:59.999999", "06:30:00.000000", "23:59:59.999999")
MOMENTS = tuple(f"{day} {time}" for day in DAYS for time in TIMES)
TEXTS = ("a", "A", "ä", "Ä", "a ", "a\u0308", "ab", "AB", "", None, "~N", "a|b", "🚢x", "🚢y")
THOUSANDS, WIDE = (Steps(column="x", width=1000),), (Steps(column="x", width=2_000_000_000),)
PREFIXES = tuple(Prefixes(column="x", length=length) for length in (1, 2))
EVERY_PERIOD = tuple(Periods(column="x", period=period) for period in Period)
OF_DAYS = tuple(each for each in EVERY_PERIOD if each.period is not Period.HOUR)
UNSIGNED = (0, 999, 1000, 2**64 - 1, None)
SOME = MOMENTS[::7]

# Declaration, how a value is written, the values, and what they are grouped by.
CASES: dict[str, list[tuple[str, str, Sequence[object], Sequence[Grouping]]]] = {
    "duckdb": [
        ("int", "{}", NUMBERS, THOUSANDS),
        ("tinyint", "{}", (-128, 127, 0, None), THOUSANDS),
        ("ubigint", "{}", UNSIGNED, THOUSANDS),
        ("hugeint", "{}", (*NUMBERS, 10**37), THOUSANDS),
        ("decimal(12,0)", "{}", NUMBERS, THOUSANDS),
        ("date", "'{}'", DAYS, OF_DAYS),
        ("timestamp", "'{}'", SOME, EVERY_PERIOD),
        ("timestamptz", "'{}+00'", SOME, EVERY_PERIOD),
        ("varchar COLLATE nocase", "'{}'", TEXTS, PREFIXES),
    ],
    "mariadb": [
        ("int", "{}", NUMBERS, THOUSANDS),
        ("bigint unsigned", "{}", UNSIGNED, THOUSANDS),
        ("decimal(12,0)", "{}", NUMBERS, THOUSANDS),
        ("date", "'{}'", DAYS, OF_DAYS),
        ("datetime(6)", "'{}'", SOME, EVERY_PERIOD),
        ("varchar(20) COLLATE utf8mb4_general_ci", "'{}'", TEXTS, PREFIXES),
    ],
    "postgresql": [
        ("int", "{}", NUMBERS, THOUSANDS),
        ("date", "'{}'", DAYS, OF_DAYS),
        ("timestamp", "'{}'", MOMENTS, EVERY_PERIOD),
        ("timestamptz", "'{}+00'", MOMENTS, EVERY_PERIOD),
        ("text", "'{}'", TEXTS, PREFIXES),
    ],
    "trino": [
        ("integer", "{}", (*NUMBERS, -(2**31), 2**31 - 1), (*THOUSANDS, *WIDE)),
        ("timestamp(3)", "timestamp '{}'", [moment.replace("999999", "999000") for moment in SOME], EVERY_PERIOD),
        ("varchar", "'{}'", TEXTS, PREFIXES),
    ],
}


@at(*CASES)
def test_partitions_are_those_of_the_canonical_texts(place: Place) -> None:
    if place.kind == "postgresql":
        place.run(f"ALTER DATABASE {place.url.rsplit('/', 1)[1]} SET timezone = 'America/New_York'")
    for kind, form, values, groupings in CASES[place.kind]:
        rows = ["NULL" if value is None else form.format(value) for value in [*values, None]]
        with place.of(f"x {kind}", *rows).probe() as asked:
            column = asked.schema().find("x")
            for grouping in groupings:
                expected: defaultdict[Slice, Fingerprint] = defaultdict(Fingerprint)
                for value in [*values, None]:
                    text = None if value is None else str(value)
                    part = grouping.part(grouping.coarse(bucket_of(grouping, value)), column)
                    expected[part] += Fingerprint.of_texts([row_text([text])])
                found = asked.partitions(grouping)
                assert found == expected, (kind, grouping)
                few = [*found][:: 1 + len(found) // 5]
                assert {part: asked.fingerprint(part) for part in few} == {part: found[part] for part in few}, kind
                if place.kind == "postgresql":
                    assert set(asked.quick_hashes(grouping) or expected) == set(expected), (kind, grouping)


def bucket_of(grouping: Grouping, value: object) -> str | None:
    """The model: what a partition begins with."""
    match grouping:
        case _ if value is None:
            return None
        case Steps(width=width):
            return str(int(str(value)) // width * width)
        case Periods(period=period):
            return str(value)[: CHARACTERS[period]]
        case _:
            return str(value)[: grouping.length]


@at("postgresql")
def test_a_moment_that_has_no_canonical_text_is_named_by_its_column(place: Place) -> None:
    for value in ("infinity", "-infinity", "0001-12-31 23:59:59 BC", "10000-01-01 00:00:00"):
        there = place.of("c timestamptz, d int", f"'{value}', 1", "'2025-01-01', 2")
        with there.probe() as asked, pytest.raises(SchemaRefused, match="column 'c'"):
            asked.quick_hashes(Periods(column="c", period=Period.DAY))


@at("postgresql")
def test_its_own_hash_tells_other_values_in_parts_of_a_table_too(place: Place) -> None:
    numbers = f"generate_series(1, {probe.SPLIT_ROWS}) n"
    place.run(f"CREATE TABLE t AS SELECT n, 'k' || n AS k, n AS other FROM {numbers}")

    def asked() -> tuple[int, str] | None:
        with place.source("t").probe() as opened:
            return opened.quick_hash(["k", "n"])

    first = asked()
    place.run("ANALYZE t", "UPDATE t SET other = 0 WHERE n % 7 = 0")
    assert asked() == first
    place.run("UPDATE t SET k = 'k' || (CASE n WHEN 1 THEN 2 ELSE 1 END) WHERE n IN (1, 2)")
    found = asked()
    assert first[0] == found[0] == probe.SPLIT_ROWS
    assert found != first


@at("postgresql")
def test_the_bounds_of_a_key_are_told_by_its_index(place: Place) -> None:
    place.run(
        f"CREATE TABLE t AS SELECT n FROM generate_series(-50, {probe.SPLIT_ROWS}) n",
        "ALTER TABLE t ADD PRIMARY KEY (n)",
        "ANALYZE t",
    )
    with place.source("t").probe() as opened:
        asked = opened.statements.key_bounds(Everything(), "n", counted=False)
        assert "Index" in str(opened.session.rows(f"EXPLAIN {asked}"))
        parts = (Everything(), Range(cursor=("n",), after=None, upto="-49"))
        bounds, few = (opened.key_bounds(part, "n") for part in parts)
        assert (bounds.low, bounds.high, bounds.values) == ("-50", str(probe.SPLIT_ROWS), ())
        assert few.values == ("-49", "-50")
