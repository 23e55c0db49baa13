"""What the demo has done and measured so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tidegate.core.outcome import Problem
from tidegate.engine.preview import PlanReport
from tidegate_demo.airline import Arrivals
from tidegate_demo.proof import Proof


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One command of the demo as it was measured.

    Args:
        command: what a user types for the same.
        seconds: by the clock on the wall, all streams together.
        outcomes: the `streams` of `run --json`.
    """

    name: str
    command: str
    seconds: float
    outcomes: tuple[Mapping[str, Any], ...]

    @property
    def rows(self) -> int:
        """Rows that moved."""
        return sum(int(outcome["rows_read"]) for outcome in self.outcomes)

    @property
    def spark_started(self) -> bool:
        """Whether this step started Spark."""
        return any(outcome["spark_started"] for outcome in self.outcomes)


@dataclass(slots=True, kw_only=True)
class Story:
    """What has happened so far; the document of `demo --json`."""

    directory: Path
    source_rows: dict[str, int] = field(default_factory=dict)
    arrivals: Arrivals | None = None
    plan: PlanReport | None = None
    steps: list[Step] = field(default_factory=list)
    proofs: tuple[Proof, ...] = ()
    problem: Problem | None = None

    @property
    def equal(self) -> bool | None:
        """Whether every table holds what its source holds; None before anybody has looked."""
        return all(proof.equal for proof in self.proofs) if self.proofs else None

    @property
    def exit_code(self) -> int:
        """0, or that of the step that ended the story."""
        return self.problem.exit_code if self.problem else 0

    def to_dict(self) -> dict[str, Any]:
        """JSON types only."""
        return {
            "directory": str(self.directory),
            "exit_code": self.exit_code,
            "equal": self.equal,
            "source_rows": self.source_rows,
            "arrivals": {**asdict(self.arrivals), "until": self.arrivals.until.isoformat()} if self.arrivals else None,
            "plan": self.plan.to_dict() if self.plan else None,
            "steps": [
                {
                    "step": step.name,
                    "command": step.command,
                    "rows": step.rows,
                    "seconds": round(step.seconds, 3),
                    "spark_started": step.spark_started,
                    "streams": list(step.outcomes),
                }
                for step in self.steps
            ],
            "proofs": [
                {"table": p.table, "equal": p.equal, "source": str(p.source), "target": str(p.target)}
                for p in self.proofs
            ],
            "error": self.problem.to_dict() if self.problem else None,
        }
