"""Sources as syntax trees, parsed once however many rules look at them."""

import ast
from functools import cache
from pathlib import Path


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imported_by(path: Path) -> frozenset[str]:
    return frozenset(imported(tree_of(path)))


def imported(tree: ast.AST) -> set[str]:
    """The modules that are imported, and the names as if each were one."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names
