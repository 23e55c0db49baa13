"""The shape of the code: docstrings, public names, nothing of a machine in the tree."""

import ast
import re
from pathlib import Path

import pytest

import tidegate
import tidegate_demo
from support.trees import tree_of

SOURCE = Path(tidegate.__file__).parent
DEMO = Path(tidegate_demo.__file__).parent
ROOT = SOURCE.parent.parent
FILES = sorted([*SOURCE.rglob("*.py"), *DEMO.rglob("*.py"), *ROOT.glob("packages/*/src/*/*.py")])


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tree() -> list[Path]:
    """Every text that the repository holds, but for the lock file, which names where packages come from.

    In a work tree of git `.git` is a file, which names where the repository is.
    """
    tops = [path for path in ROOT.iterdir() if path.is_file() and path.name not in ("uv.lock", ".git")]
    folders = [".ci", "bench", "docs", "examples", "packages", "scripts", "src", "tests"]
    inner = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    kinds = {"", ".csv", ".json", ".md", ".py", ".sh", ".sql", ".svg", ".toml", ".txt", ".yaml", ".yml"}
    return [path for path in tops + inner if path.suffix in kinds and not {"__pycache__", "out"} & set(path.parts)]


def test_every_module_says_what_it_is_for():
    silent = [name(path) for path in FILES if not ast.get_docstring(tree_of(path))]
    assert not [each for each in silent if "migrations" not in each]


# Their fields are those of a documented JSON document, or keys of the project file, and both are flat.
FLAT = {"Config", "Outcome", "StreamPlan", "StreamStatus", "Verification", "ChangeLog", "StreamConfig", "LoadRow"}
FLAT |= {"AlertRules", "Request"}


def test_values_have_about_ten_fields():
    wide = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef) and any("dataclass" in ast.unparse(each) for each in node.decorator_list):
                fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
                fields = [each for each in fields if "ClassVar" not in ast.unparse(each.annotation)]
                wide |= {node.name} if len(fields) > 12 else set()
    assert wide == FLAT


# Words that say too little of what a name holds, or that no data engineer knows in this sense.
BANNED = {
    *("alike", "anew", "aside", "beside", "came", "come", "deaf", "doomed", "gone", "heirs", "hush", "mine", "misfit"),
    *("misfits", "myself", "ours", "sought", "standing", "stands", "theirs", "told", "untold", "vanished", "went"),
}


def test_names_are_words_of_the_field():
    found = []
    for path in FILES:
        for node in ast.walk(tree_of(path)):
            match node:
                case ast.FunctionDef(name=word) | ast.ClassDef(name=word) | ast.arg(arg=word):
                    pass
                case ast.Name(id=word, ctx=ast.Store()):
                    pass
                case _:
                    continue
            found += [f"{name(path)}:{node.lineno}: {word}"] if word.strip("_") in BANNED else []
    assert not found


def test_packages_only_export():
    allowed = ast.Import | ast.ImportFrom | ast.Assign | ast.Expr
    packages = [path for path in FILES if path.name == "__init__.py" and path.parent != SOURCE]
    made = [name(path) for path in packages for node in tree_of(path).body if not isinstance(node, allowed)]
    assert not made


def test_public_names_are_these():
    assert tidegate.__all__ == ["Outcome", "Project", "RunReport", "TidegateError", "__version__"]
    assert dir(tidegate) == sorted(tidegate.__all__)
    for public in tidegate.__all__:
        assert getattr(tidegate, public) is not None
    with pytest.raises(AttributeError, match="no attribute 'Loader'"):
        tidegate.Loader  # noqa: B018


def test_the_tree_names_no_machine_and_no_registry():
    machine = re.compile(
        r"(?<![\w.])/(?:home|root|work|Users)/\w|repo1?\.maven\.org|pypi\.org/simple|files\.pythonhosted\.org"
    )
    found = []
    for path in tree():
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if machine.search(line) and path != Path(__file__):
                found.append(f"{path.relative_to(ROOT)}:{number}")
    assert not found
