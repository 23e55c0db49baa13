"""A position's `state` is read by the strategy that wrote it, and by one module that knows the keys of the engine."""

import ast
from pathlib import Path

import tidegate

SOURCE = Path(tidegate.__file__).parent
# A loader writes positions of its own, as a strategy does.
READERS = ("strategies/", "loaders/", "core/position_state.py")


def is_state(node: ast.expr) -> bool:
    """Whether it is the state of a position, or that of changes in a saved plan."""
    if isinstance(node, ast.Attribute):
        return node.attr == "state"
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and node.slice.value == "state"


def reads_by_key(node: ast.AST) -> bool:
    match node:
        case ast.Subscript(value=value) | ast.Call(func=ast.Attribute(attr="get", value=value)):
            return is_state(value)
        case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[container]):
            return is_state(container)
    return False


def test_nobody_else_reads_a_state_by_key():
    files = {str(path.relative_to(SOURCE)): path for path in SOURCE.rglob("*.py")}
    others = {name: path for name, path in files.items() if not name.startswith(READERS)}
    found = [
        f"{name}:{node.lineno}"
        for name, path in others.items()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if reads_by_key(node)
    ]
    assert found == []


def test_the_rule_sees_every_way_to_read():
    for text in ("p.state['a']", "p.state.get('a')", "'a' in p.state", "'a' not in p.state", "c['state']['a']"):
        assert any(reads_by_key(node) for node in ast.walk(ast.parse(text)))
    assert not any(reads_by_key(node) for node in ast.walk(ast.parse("f(p.state)")))
