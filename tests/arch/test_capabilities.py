"""No plugin is asked what it is: what it can do is a value of its port, see docs/adr/0050."""

import ast
import importlib
import inspect
from pathlib import Path

import pytest

import tidegate
from tidegate.core.policies import rules
from tidegate.core.ports import dialect, envelope, format, source, strategy, writer  # noqa: A004 - a port

ROOT = Path(tidegate.__file__).parent
PORTS = (dialect, envelope, format, rules, source, strategy, writer)


def protocols():
    return {kind for port in PORTS for kind in vars(port).values() if getattr(kind, "_is_protocol", False)}


def is_of_a_plugin(kind):
    """A protocol of a port, a class that inherits from one, or a check, which only looks like its protocol."""
    return inspect.isclass(kind) and bool(set(kind.__mro__) & protocols() or hasattr(kind, "judges"))


def asked(text, names):
    """The calls of isinstance and issubclass with a class of a plugin, in a module that has these names."""
    for call in ast.walk(ast.parse(text)):
        if isinstance(call, ast.Call) and ast.unparse(call.func) in ("isinstance", "issubclass"):
            for node in ast.walk(call.args[1]):
                first, *rest = ast.unparse(node).split(".") if isinstance(node, ast.Name | ast.Attribute) else [""]
                kind = names.get(first)
                for each in rest:
                    kind = getattr(kind, each, None)
                if is_of_a_plugin(kind):
                    yield ast.unparse(call)


def test_no_plugin_is_asked_what_it_is():
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        found += [str(path)] if "runtime_checkable" in text else []
        if "isinstance(" in text or "issubclass(" in text:
            module = importlib.import_module(".".join(("tidegate", *path.relative_to(ROOT).with_suffix("").parts)))
            found += [f"{path}: {call}" for call in asked(text, vars(module))]
    assert not found


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("isinstance(probe, source.Log)", True),
        ("isinstance(probe, str | DatabaseProbe)", True),
        ("issubclass(kind, Merge)", True),
        ("isinstance(check, (int, NotNull))", True),
        ("isinstance(part, Files)", False),
        ("isinstance(value, str)", False),
    ],
)
def test_what_is_looked_for_is_found(text, named):
    from tidegate.checks.not_null import NotNull
    from tidegate.core.slices import Files
    from tidegate.sources.database.probe import DatabaseProbe
    from tidegate.writers.merge import Merge

    names = {"source": source, "DatabaseProbe": DatabaseProbe, "Merge": Merge, "NotNull": NotNull, "Files": Files}
    assert bool(list(asked(text, names))) is named


@pytest.mark.parametrize(
    "port",
    [
        source.Probe,
        source.Source,
        strategy.Strategy,
        writer.Writer,
        format.Format,
        format.Staging,
        envelope.MessageEnvelope,
        envelope.RowEnvelope,
    ],
)
def test_a_plugin_that_lacks_a_required_answer_cannot_be_made(port):
    with pytest.raises(TypeError, match="abstract"):
        type("Half", (port,), {})()
