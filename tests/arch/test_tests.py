"""How tests are written: they set what they need by arguments, and replace no name of Tidegate."""

import ast
from collections.abc import Iterator
from pathlib import Path

from support.trees import tree_of

ROOT = Path(__file__).parents[2]
TESTS = sorted([*ROOT.glob("tests/**/*.py"), *ROOT.glob("packages/*/tests/**/*.py")])

BETWEEN = "a process that dies, or another one, between two steps that no event and no argument tells apart"
KEPT = {
    "tidegate.dialects.mariadb.safe_bounds.FRESH_TRIES": "the server's list of transactions is never old for so long",
    "tidegate.dialects.mariadb.safe_bounds.LISTED": "the server has no engine whose tables lie elsewhere",
    "tidegate.dialects.mariadb.safe_bounds.OPEN": "the server's list of transactions is never old for so long",
    "tidegate.dialects.mariadb.safe_bounds.SETTLE": "sessions of one test act one after the other, thousands of times",
    "tidegate.dialects.postgresql.safe_bounds.SETTLE": "as above",
    "tidegate.dialects.postgresql.session.PostgresqlSession.rows": "the test server keeps a logical log",
    "tidegate.engine.applied_events.Applied.keep": BETWEEN,
    "tidegate.engine.hooks.WAIT": "hooks that fail are tried again after seconds",
    "tidegate.engine.partitions.GROUP_ROWS": "rows that fill two commits take minutes",
    "tidegate.engine.verification.drilldown.LEAF_ROWS": "trees of several levels have few rows then",
    "tidegate.engine.verification.drilldown.MOST_LEAF_ROWS": "as above",
    "tidegate.formats.delta.staging.DeltaStaging._need_base": BETWEEN,
    "tidegate.formats.iceberg.staging.IcebergStaging.publish": "a catalog whose reply is lost",
    "tidegate.loaders._applying.Checks.need": BETWEEN,
    "tidegate.loaders._manifest.Manifest.put": BETWEEN,
    "tidegate.loaders._records.Records.add": BETWEEN,
    "tidegate.loaders._watermarks.Watermarks.put": BETWEEN,
    "tidegate.registry.logs.RUNS": "as many runs as are kept take seconds to write",
    "tidegate.registry.stalls.WatchfulConnection.patience": "a server that stands still is waited for, for long",
    "tidegate.registry.store.Registry.set_position": BETWEEN,
    "tidegate.sources.change_log.slot.slot.SlotOptions.acknowledge": BETWEEN,
    "tidegate.sources.change_log.slot.slot.SlotOptions.claim": BETWEEN,
    "tidegate.sources.database.probe.DatabaseProbe.partitions": "watched, not changed: how much the source is asked",
    "tidegate.writers.merge.folded": "watched, not changed: how often a plan decodes a message",
    "tidegate.writers.scd2.versions._stored": "a history that is made wrongly, to see that it is not published",
}
"""What is replaced all the same, and why."""


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
    changing = [path for path in TESTS if ".setattr(" in path.read_text("utf-8")]
    found = {name for path in changing for name in replaced(tree_of(path))}
    assert not found ^ set(KEPT), "pass an argument, use a fake of `tidegate.testing`, or an input that is large enough"
