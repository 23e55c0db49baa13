"""How tests are written: they set what they need by arguments, and replace no name of Tidegate."""

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent.parent

KEPT: dict[str, str] = {}
"""What is replaced all the same, and why nothing else would do."""


def replaced(tree: ast.Module) -> Iterator[str]:
    """The names of Tidegate that `setattr` of a monkeypatch, of any name, is called on."""
    known = {
        each.asname or each.name: f"{node.module}.{each.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0].startswith("tidegate")
        for each in node.names
    }
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setattr"):
            continue
        target, *rest = (ast.unparse(each).strip("'\"") for each in node.args)
        root, _, below = target.partition(".")
        if root in known or root.startswith("tidegate"):
            yield ".".join(filter(None, (known.get(root, root), below, *rest[:-1])))


def test_no_name_of_tidegate_is_replaced() -> None:
    found = {name for path in sorted(TESTS.rglob("*.py")) for name in replaced(ast.parse(path.read_text("utf-8")))}
    assert found == set(KEPT), "pass an argument, use a fake of `tidegate.testing`, or an input that is large enough"
