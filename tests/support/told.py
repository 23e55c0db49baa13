"""What the product says of its last runs, for the report of a test that failed."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

LAST = """
    SELECT object_name, outcome, error, plan
    FROM runs JOIN object_info USING (object_id) LEFT JOIN plans USING (run_id, object_id)
    ORDER BY started_ts DESC, object_name LIMIT 6
"""


def told(folder: Path) -> Iterator[tuple[str, str]]:
    """A section for each registry in the folder: its last runs, each with its error, and the plan of the newest."""
    for registry in sorted(folder.rglob(".tidegate/registry.db"))[:3]:
        try:
            with closing(sqlite3.connect(f"file:{registry}?mode=ro", uri=True, timeout=5)) as connection:
                runs = connection.execute(LAST).fetchall()
        except sqlite3.Error as error:  # cut off in the middle, as the test wanted it
            runs = [("the registry", f"cannot be read: {error}", None, None)]
        lines = [f"{stream}: {outcome}{_indented(error)}" for stream, outcome, error, _ in runs]
        lines += [f"planned for {stream}:{_indented(plan)}" for stream, _, _, plan in runs[:1] if plan is not None]
        if lines:
            yield f"last runs in {registry.parent.parent}", "\n".join(lines)


def _indented(document: str | None) -> str:
    if document is None:
        return ""
    return "".join(f"\n    {name}: {value!s:.300}" for name, value in json.loads(document).items())
