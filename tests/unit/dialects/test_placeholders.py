"""What PostgreSQL's JDBC driver gets: every operator with a `?` is doubled, and no text is touched."""

from __future__ import annotations

import pytest

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
