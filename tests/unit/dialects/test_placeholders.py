"""What a JDBC driver gets that takes a `?` for a parameter: every operator is escaped, and no text is touched."""

from __future__ import annotations

import pytest

from tidegate.dialects.oracle import placeholders as oracle
from tidegate.dialects.postgresql.placeholders import escaped


@pytest.mark.parametrize(
    ("sql", "sent"),
    [
        ("doc ? 'a'", "doc ?? 'a'"),
        ("doc ?| array['a?'] OR doc ?& b", "doc ??| array['a?'] OR doc ??& b"),
        ("doc @? '$.a ? (@ > 1)' AND x?y", "doc @?? '$.a ? (@ > 1)' AND x??y"),
        ("'it''s ?' ? 'a'", "'it''s ?' ?? 'a'"),
        (r"'\' ? 'a'", r"'\' ?? 'a'"),
        (r"E'\' ?' ? e'\\' ? 'a'", r"E'\' ?' ?? e'\\' ?? 'a'"),
        (r"name'\' ? 'a'", r"name'\' ?? 'a'"),
        ('"a ""? b" ? \'a\'', '"a ""? b" ?? \'a\''),
        ("$$ it's ? $$ ? 'a'", "$$ it's ? $$ ?? 'a'"),
        ("$q$ $$ ? $$ ? $q$ ? 'a'", "$q$ $$ ? $$ ? $q$ ?? 'a'"),
        ("a$b ? c$b", "a$b ?? c$b"),
        ("$1 ? $2", "$1 ?? $2"),
        ("a -- it's ?\n? b", "a -- it's ?\n?? b"),
        ("/* it's ? /* ? */ ? */ a ? b", "/* it's ? /* ? */ ? */ a ?? b"),
        ("a /* never ends ?", "a /* never ends ?"),
        ("plain", "plain"),
    ],
)
def test_operators_are_doubled_and_texts_are_not(sql: str, sent: str) -> None:
    assert escaped(sql) == sent


@pytest.mark.parametrize(
    ("sql", "sent"),
    [
        ("PATTERN (a? b*? c+? d??)", "PATTERN (a! b*! c+! d!!)"),
        ("json_exists(doc, '$?(@.a > 1)') PATTERN (a?)", "json_exists(doc, '$?(@.a > 1)') PATTERN (a!)"),
        ("'it''s ?' \"a ? b\" (a?)", "'it''s ?' \"a ? b\" (a!)"),
        ("q'[it's ?]' nQ'!it's ?!' q'{'?}' (a?)", "q'[it's ?]' nQ'!it's ?!' q'{'?}' (a!)"),
        ("-- it's ?\n/* it's ? */ (a?)", "-- it's ?\n/* it's ? */ (a!)"),
    ],
)
def test_quantifiers_of_oracle_are_escaped_and_texts_are_not(sql: str, sent: str) -> None:
    assert oracle.escaped(sql).replace(r"{\?\}", "!") == sent
