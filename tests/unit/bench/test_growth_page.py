"""The table of growth: a run replaces the lines that it measured, and leaves those of earlier runs."""

from bench.growth_page import lines_of, merged, plot, table


def line(grows, size, job, seconds, by_hand=None):
    return {
        "grows": grows,
        "size": size,
        "job": job,
        "seconds": seconds,
        "by_hand": by_hand,
        "measured": "2026-01-02",
        "load": 1.5,
    }


OLD = [
    line("rows", 500_000, "first load", 19.6, 3.2),
    line("rows", 5_000_000, "first load", 30.4, 10.5),
    line("streams", 1, "nothing to do", 0.1),
]


def test_the_page_gives_back_the_lines_that_were_written():
    page = f"Text.\n\n<!-- growth -->\n{table(OLD)}\n\n![Seconds](images/growth.svg)\n<!-- /growth -->\n"
    assert lines_of(page) == OLD
    assert lines_of("<!-- growth -->\n<!-- /growth -->\n") == []


def test_a_later_run_replaces_its_own_lines_and_adds_new_ones_in_order():
    new = [
        line("rows", 1_000_000, "first load", 22.0, 4.0),
        line("rows", 5_000_000, "first load", 29.0, 9.0),
        line("past loads", 10, "10 neighbouring rows", 1.0),
    ]
    found = merged(OLD, new)
    assert [(each["grows"], each["size"], each["seconds"]) for each in found] == [
        ("rows", 500_000, 19.6),
        ("rows", 1_000_000, 22.0),
        ("rows", 5_000_000, 29.0),
        ("streams", 1, 0.1),
        ("past loads", 10, 1.0),
    ]


def test_every_thing_that_grows_has_a_panel():
    drawn = plot(OLD)
    assert drawn.count("font-weight") == 2
    assert "rows: seconds" in drawn
    assert "streams: seconds" in drawn
    assert "dashed: by hand" in drawn
