"""No character of a secret is shown, wherever the text around it is cut and however it is written before."""

import html
import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidegate.config.nodes import from_values
from tidegate.config.secrets import collect, redact
from tidegate.core.cutting import CUT, cut, first_line
from tidegate.core.secret_names import MASK

LETTERS = "QRSTUVWXYZé"
# A short word of digits alone is masked as a whole word only.
SECRETS = st.text(LETTERS + " '\"\\/<&%\n\t", max_size=24).map("Q{}".format)
AROUND = st.text("abcdef .:\n'\"", max_size=12)
WRITTEN = {
    "as it is": lambda text: text,
    "on one line": lambda text: " ".join(text.split()),
    "in JSON": lambda text: json.dumps(text, ensure_ascii=False),
    "in JSON of ASCII": json.dumps,
    "in Python": repr,
    "in HTML": html.escape,
    "in SQL": lambda text: text.replace("'", "''"),
}
CUTS = {"at a length": cut, "at the end of a line": first_line, "nowhere": lambda text, _: text}


def known(*texts):
    catalog = {f"s{number}.secret": text for number, text in enumerate(texts)}
    return collect(from_values({"lakes": {"lake": {"catalog": catalog}}}), ())


def letters(text):
    return set(text.replace("\\u00e9", "é").replace(MASK, "").replace(CUT, "")) & set(LETTERS)


@pytest.mark.parametrize("cutting", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)
@settings(max_examples=20)
@given(secrets=st.lists(SECRETS, min_size=1, max_size=2), before=AROUND, after=AROUND, most=st.integers(0, 40))
@example(secrets=["QRS", "QRSTU"], before="", after="", most=4)
@example(secrets=["S'T\"U"], before="'", after="", most=40)
def test_nothing_of_a_secret_is_shown(cutting, written, secrets, before, after, most):
    found = redact(cutting(written(before + "a".join(secrets) + after), most), known(*secrets))
    assert letters(found) == set(), found


@given(text=st.text("abc […]", max_size=30), most=st.integers(0, 30))
def test_what_is_no_secret_is_shown_as_it_is(text, most):
    assert redact(cut(text, most), known("QRSTUVWX")) == cut(text, most)
