import pytest

from tidegate.config.nodes import Mark, Node, from_values, parse
from tidegate.core.spelling import suggest
from tidegate.errors import ConfigError


def read(text: str) -> Node:
    return parse(text, "p.yaml")


def refused(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(text)
    return caught.value.message


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1", 1),
        ("-1", -1),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("true", True),
        ("False", False),
        ("~", None),
        ("", None),
        ("no", "no"),
        ("on", "on"),
        ("'1'", "1"),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("0x1f", "0x1f"),
        ("inf", "inf"),
        ("2013-12-01", "2013-12-01"),
        ("500ms", "500ms"),
        ('"true"', "true"),
        ("|-\n  5", "5"),
    ],
)
def test_scalars_are_what_they_look_like(written, value):
    found = read(f"key: {written}\n").items["key"].value
    assert found == value
    assert type(found) is type(value)


def test_keys_are_texts_even_when_they_look_like_something_else():
    assert list(read("1: a\non: b\nnull: c\n2013-12-01: d\n").items) == ["1", "on", "null", "2013-12-01"]


def test_every_value_knows_line_and_path():
    root = read("a:\n  b:\n    - x\n    - {c: 1}\n\n  d:\n    long\n")
    assert root.at(["a", "b", 1, "c"]).mark == Mark(file="p.yaml", line=4, path=("a", "b", "1", "c"))
    assert root.at(["a", "d"]).mark.line == 6
    assert str(root.at(["a", "d"]).mark) == "p.yaml:6: a.d"


def test_at_stops_at_the_last_node_that_is_there():
    assert read("a: {b: 1}").at(["a", "b", "c", 3]).value == 1


def test_a_key_given_twice_names_both_lines():
    assert refused("a:\n  b: 1\n  c: 2\n  b: 3\n") == "p.yaml:4: a.b: is given twice, first in line 2"


def test_anchors_and_merges_work_and_own_keys_win():
    root = read("x: &x {a: 1, b: 2}\ny: &y {b: 3, c: 4}\nz: {<<: [*x, *y], a: 9}\nw: *x\n")
    assert root.items["z"].plain() == {"a": 9, "b": 2, "c": 4}
    assert root.items["w"].plain() == {"a": 1, "b": 2}


def test_a_quoted_merge_sign_is_a_key():
    assert read("a: {'<<': 1}").plain() == {"a": {"<<": 1}}


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10)
)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a: [1\n", "p.yaml:2: the project: is not valid YAML"),
        ("a: 1\n\tb: 2\n", "p.yaml:2"),
        ("a: *nothing", "p.yaml:1: the project: is not valid YAML: found undefined alias"),
        ("a: \x00", "characters that YAML does not allow"),
        ("", "is empty"),
        ("# only a remark\n", "is empty"),
        ("a: &a [*a]", "is an alias that contains itself"),
        (BOMB, "repeats more than 100,000 values by aliases"),
        (f"a: {'[' * 2000}", "p.yaml:1: the project: is nested too deeply"),
        ("? [1, 2]\n: 3", "has a key that is not a string"),
        ("a: !!python/object:os.system x", "has a YAML tag"),
        ("a: 1\n---\nb: 2\n", "expected a single document"),
    ],
)
def test_what_is_not_a_project_is_refused_with_its_line(text, part):
    assert part in refused(text)


def test_parse_errors_never_quote_the_file():
    assert "hunter2" not in refused("registry: [postgresql://a:hunter2@h/d\nb: }\n")


def test_values_from_python_have_paths_without_lines():
    root = from_values({"a": [{"b": 1}]})
    assert str(root.at(["a", 0, "b"]).mark) == "a.0.b"


def test_a_scalar_is_no_mapping():
    with pytest.raises(ConfigError, match="a: must be a mapping"):
        _ = from_values({"a": 1}).items["a"].items


def test_suggestions_name_the_nearest_or_all():
    assert suggest("verfy", ["key", "verify"]) == "did you mean 'verify'?"
    assert suggest("zzz", ["key", "verify"]) == "known: key, verify"
