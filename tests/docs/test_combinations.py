"""The table of combinations in the documents is what `check` accepts.

After a change: `python tests/docs/test_combinations.py` writes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tidegate import plugins
from tidegate.core.policies.deletes import Apply, Deletes, Detect, Scope
from tidegate.engine.assemble.combinations import Combination, combinations, methods

PAGE = Path(__file__).parents[2] / "docs" / "combinations.md"
BEGIN, END = "<!-- made from what the plugins declare -->\n", "<!-- until here -->\n"
MODES = {
    "soft": lambda each: each == Deletes(apply=Apply.SOFT),
    "key_diff": lambda each: each.detect is Detect.KEY_DIFF and each.scope is Scope.TABLE,
    "key_diff in a window": lambda each: each.detect is Detect.KEY_DIFF and each.scope is Scope.WINDOW,
}


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [list(heads), *map(list, rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def ways() -> list[tuple[str, str]]:
    return [(kind, method) for kind in plugins.names("strategies") for method in methods(kind)]


def listed(names: Iterable[str], known: Iterable[str]) -> str:
    found = set(names)
    return ", ".join(name for name in known if name in found) or "none"


def written(found: list[Combination]) -> str:
    writers = plugins.names("writers")
    rows = []
    for kind, method in ways():
        mine = [each for each in found if (each.strategy, each.method) == (kind, method)]
        modes = [name for name, is_mode in MODES.items() if any(is_mode(each.deletes) for each in mine)]
        rows.append([f"{kind} {method}".strip(), listed((each.writer for each in mine), writers), listed(modes, MODES)])
    return table(["strategy", "`write:`", "`deletes:` with merge"], rows)


def read(found: list[Combination]) -> str:
    rows = []
    for source in plugins.names("sources"):
        mine = [each for each in found if each.source == source]
        by_flavour: dict[tuple[str, ...], list[str]] = {}
        for flavour in dict.fromkeys(each.flavour for each in mine):
            there = {(each.strategy, each.method) for each in mine if each.flavour == flavour}
            by_flavour.setdefault(tuple(strategies(there)), []).append(flavour)
        rows += [[f"{source}: {'; '.join(flavours)}", ", ".join(names)] for names, flavours in by_flavour.items()]
    return table(["source", "strategies"], rows)


def strategies(there: set[tuple[str, str]]) -> Iterable[str]:
    for kind in plugins.names("strategies"):
        mine = [method for method in methods(kind) if (kind, method) in there]
        if mine:
            yield kind if len(mine) == len(methods(kind)) else f"{kind} ({', '.join(mine)})"


def made() -> str:
    found = list(combinations())
    return f"{BEGIN}\n{written(found)}\n{read(found)}\n{END}"


def test_the_page_lists_what_check_accepts():
    text = PAGE.read_text(encoding="utf-8")
    assert made() == BEGIN + text.partition(BEGIN)[2].partition(END)[0] + END


if __name__ == "__main__":
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(before + made() + rest.partition(END)[2], encoding="utf-8")
