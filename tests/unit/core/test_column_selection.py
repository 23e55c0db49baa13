"""Which columns are read: what is left out is named, never guessed, and never needed."""

from __future__ import annotations

import pytest

from tidegate.core.column_selection import ColumnSelection
from tidegate.core.schema import TEXT, Column, Schema, compare
from tidegate.core.yaml_text import listed, mapped
from tidegate.dialects.shared.columns import described
from tidegate.errors import ConfigError, SchemaRefused

NAMES = ("id", "email", "phone", "a*", "note")


def chosen(**options) -> tuple[str, ...]:
    return ColumnSelection(**options).of("people", NAMES)


def test_everything_is_read_unless_something_is_said():
    assert chosen() == NAMES


def test_include_and_exclude_are_names_or_patterns():
    assert chosen(exclude=("email", "ph*")) == ("id", "a*", "note")
    assert chosen(include=("id", "?ote")) == ("id", "note")
    assert chosen(include=("*",), exclude=("a*",)) == ("id", "email", "phone", "note")
    assert chosen(exclude=("nothing_like_*",)) == NAMES


@pytest.mark.parametrize("key", ["include", "exclude"])
def test_a_name_that_is_not_there_may_be_the_one_that_must_not_be_read(key):
    with pytest.raises(ConfigError, match="no column 'Email'; did you mean 'email'"):
        chosen(**{key: ("Email",)})


def test_types_of_columns_that_are_not_there_or_not_read_are_refused():
    with pytest.raises(ConfigError, match="columns: people has no column 'ids'"):
        chosen(types={"ids": "text"})
    with pytest.raises(ConfigError, match="'email', which `include` or `exclude` leaves out"):
        chosen(types={"email": "text"}, exclude=("email",))


def test_at_least_one_column_is_left():
    with pytest.raises(ConfigError, match="leave no column"):
        chosen(exclude=("*",))


def test_columns_that_the_stream_needs_are_not_left_out():
    selection = ColumnSelection(exclude=("id", "updated_*"))
    found = list(selection.refused({"key": ("id",), "strategy": ("updated_at",), "write": ("note",)}))
    assert [text.partition(":")[0] for text in found] == ["key", "strategy"]


def test_what_is_left_out_is_no_difference():
    table = Schema(columns=tuple(Column(name=name, type=TEXT) for name in ("id", "email", "gone")))
    whole = Schema(columns=tuple(Column(name=name, type=TEXT) for name in ("id", "email")))
    read = ColumnSelection(exclude=("email",)).applied("people", whole)
    assert [change.column for change in compare(source=read, table=table)] == ["gone"]
    assert read.excluded == ("email",)


def test_every_unsupported_column_is_told_at_once_with_the_lines_that_repair_it():
    natives = [("id", "int"), ("shape", "geometry"), ("on off", "tsrange"), ("secret", "xml")]

    def column_of(name: str, native: str, override: str | None) -> Column | str:
        return Column(name=name, type=TEXT) if native == "int" or override else native

    found = described("places", natives, ColumnSelection(exclude=("secret",)), column_of)
    with pytest.raises(SchemaRefused) as refused:
        found.schema()
    assert "'shape' (geometry), 'on off' (tsrange)" in refused.value.message
    assert "secret" not in refused.value.message
    assert '`source: {columns: {shape: text, "on off": text}}`' in refused.value.hint
    assert '`source: {exclude: [shape, "on off"]}`' in refused.value.hint
    types = {"shape": "text", "on off": "text"}
    selection = ColumnSelection(exclude=("secret",), types=types)
    assert described("places", natives, selection, column_of).schema().names == ("id", "shape", "on off")


def test_names_that_spark_cannot_tell_apart_need_one_of_them_left_out():
    natives = [("a", ""), ("A", "")]

    def column_of(name: str, native: str, override: str | None) -> Column:
        return Column(name=name, type=TEXT)

    with pytest.raises(SchemaRefused, match="cannot tell apart") as refused:
        described("t", natives, ColumnSelection(), column_of)
    assert "exclude: [A]" in refused.value.hint
    assert described("t", natives, ColumnSelection(exclude=("A",)), column_of).schema().names == ("a",)


def test_lines_are_yaml():
    assert listed(["a", "no", "b c"]) == '[a, "no", "b c"]'
    assert mapped({"a": "decimal(2,1)"}) == '{a: "decimal(2,1)"}'


def test_a_list_of_nothing_is_refused():
    with pytest.raises(ConfigError, match="must name at least one column"):
        ColumnSelection(include=())
