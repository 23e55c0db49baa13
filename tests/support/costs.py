"""A registry with records of loads that nobody made, for strategies that learn from what loads cost."""

from collections.abc import Iterable

from tidegate.api import Project
from tidegate.core.cost_model import CHOICE, RECENT, LoadMethod
from tidegate.core.outcome import Outcome, Result
from tidegate.engine.run import new_run_id


def record_costs(project: Project, stream: str, ways: Iterable[LoadMethod], *, rows: int, seconds: float) -> None:
    """As many loads of each way as are remembered, all of which took so long."""
    (found,) = project.streams(stream)
    uid = found.uid
    project.registry.register(uid=uid, name=stream, source=found.source_name, target=str(found.target))
    for way in ways:
        for _ in range(RECENT):
            run_id = new_run_id()
            outcome = Outcome(
                stream=stream,
                outcome=Result.LOADED,
                strategy="smart",
                rows_read=rows,
                position={"state": {CHOICE: {"way": way, "rows": rows}}},
                seconds={"total": seconds},
            )
            project.registry.start_run(run_id, uid)
            project.registry.finish_run(run_id, outcome)
