"""The page of what has been proven, after runs of some of the sources."""

from __future__ import annotations

from typing import Any

from matrix.proven import accepted, merged, page, row_of, rows_of

DAY = "2026-01-31, 0.1.0"


def lines(source: str, failed: int = 0) -> list[dict[str, Any]]:
    """A run of every combination of a source."""
    by_format: dict[str, list[str]] = {}
    for shape, table_format in sorted(accepted(source, [2])):
        by_format.setdefault(table_format, []).append(shape)
    common = {
        "source": source,
        "flavour": source,
        "loads": 9,
        "keys": 20,
        "seed": 2,
        "run": DAY,
        "failed": ["x"] * failed,
    }
    return [{**common, "format": table_format, "shapes": shapes} for table_format, shapes in by_format.items()]


def test_a_run_of_one_source_replaces_its_row_and_no_other():
    before = rows_of(page(merged({}, [*lines("slot"), *lines("ranges", failed=1)])[0]))
    assert before["ranges"].failures == 2
    rows, kept = merged(before, lines("ranges"))
    assert (rows["slot"], rows["ranges"].failures, kept) == (before["slot"], 0, [])
    assert rows_of(page(rows)) == rows


def test_a_source_that_was_run_in_part_keeps_its_row():
    before = merged({}, lines("ranges"))[0]
    rows, kept = merged(before, lines("ranges", failed=1)[:1])
    assert (rows, kept) == (before, ["ranges"])


def test_a_page_says_what_was_not_run():
    part = lines("ranges")[:1]
    rows, _ = merged({}, part)
    whole = len(accepted("ranges", [2]))
    text = page(rows)
    assert f"| ranges | ranges | {row_of(part).combinations} of {whole} |" in text
    assert f"| slot | - | 0 of {len(accepted('slot', [2]))} | 0 | 0 | 0 | not yet |" in text
    assert f"Combinations: {row_of(part).combinations} of" in text


def test_the_row_of_a_source_that_is_gone_goes():
    rows = merged({"dbase": row_of(lines("slot"))}, lines("slot"))[0]
    assert set(rows) == {"slot"}
