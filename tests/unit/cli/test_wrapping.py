"""Long lines are broken at words on a terminal alone, and a command in backticks never is."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.cli.shell import fitted, wrapped

LINE = "note: orders: 6,667 of 20,000 rows are in quarantine; `tidegate quarantine show orders` shows them"


def test_a_line_is_broken_at_words_and_goes_on_indented_and_no_command_is():
    assert wrapped(LINE, 60).splitlines() == [
        "note: orders: 6,667 of 20,000 rows are in quarantine;",
        "  `tidegate quarantine show orders` shows them",
    ]
    assert "`tidegate quarantine show orders`" in wrapped(LINE, 20)
    assert fitted(LINE * 9, io.StringIO()) == LINE * 9, "a pipe gets the line as it is"


@pytest.mark.parametrize("text", ["", "short", "  a   b", "a\n\n  b"])
def test_what_fits_stays_as_it_is(text):
    assert wrapped(text, 20) == text


@given(st.text(alphabet="ab` \n", max_size=80), st.integers(5, 30))
def test_no_word_is_lost(text, width):
    assert wrapped(text, width).split() == text.split()
