"""What every case of a certification works with: a project of its own, the scratch schema, and a reader of the lake."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError

from tidegate.api import Project
from tidegate.core.cutting import first_line
from tidegate.core.outcome import Problem
from tidegate.core.ports.dialect import Connectable
from tidegate.core.report import RunReport
from tidegate.engine.events import Listener, ignore
from tidegate.errors import TidegateError
from tidegate_scenarios.certification import Certification, Sample, Scratch
from tidegate_scenarios.comparison import different_rows
from tidegate_scenarios.report import Case, State
from tidegate_scenarios.source_tables import SourceTable
from tidegate_scenarios.streams import CONNECTION, LAKE, NAMESPACE

AT_A_TIME = 2
MEMORY = "2g"


def project_values(url: str, streams: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """A project as a user writes one; the URL is taken as it is."""
    return {
        "connections": {CONNECTION: {"url": url.replace("${", "$${")}},
        "spark": {"conf": {"spark.driver.memory": MEMORY, "spark.sql.shuffle.partitions": "2"}},
        "streams": {name: dict(stream) for name, stream in streams.items()},
    }


def reason_of(error: TidegateError | Problem) -> str:
    """What was found, and what would help."""
    return f"{error.message}. {error.hint}"


@dataclass(kw_only=True)
class Trial:
    """One certification at work.

    Args:
        folder: the project's own, temporary one.
        samples: the types that the server has.
        unsupported: by stream why the database cannot serve it.
        tell: is told of each case as it ends.
    """

    kit: Certification
    dialect: Connectable
    scratch: Scratch
    project: Project
    folder: Path
    tables: Mapping[str, SourceTable]
    samples: tuple[Sample, ...]
    unsupported: Mapping[str, str]
    tell: Callable[[Case], None]
    cases: list[Case] = field(default_factory=list)

    def supported(self, *streams: str) -> list[str]:
        """Those of the streams that the database serves."""
        return [name for name in streams if name not in self.unsupported]

    def record(self, group: str, name: str, problem: str = "", *, state: State | None = None) -> bool:
        """Adds a case: passed without a problem, else failed unless another state is given."""
        ended = state or (State.FAILED if problem else State.PASSED)
        detail = self.project.config.redact(problem)
        self.cases.append(Case(group=group, name=name, state=ended, detail=detail))
        self.tell(self.cases[-1])
        return ended is not State.FAILED

    @contextmanager
    def guarded(self, group: str, name: str) -> Iterator[None]:
        """What goes wrong inside is a failed case; the next ones are tried all the same."""
        try:
            yield
        except TidegateError as error:
            self.record(group, name, f"{error.code}: {error.message}")
        except Exception as error:  # noqa: BLE001 - whatever breaks is what the report is for
            self.record(group, name, f"{type(error).__name__}: {first_line(error)}")

    def run(self, *streams: str, on_event: Listener = ignore) -> RunReport:
        """Loads the streams."""
        return self.project.run(*streams, parallel=min(AT_A_TIME, len(streams)), on_event=on_event)

    def found(self, stream: str) -> Sequence[Mapping[str, Any]] | None:
        """The rows of a stream's table as PyIceberg and PyArrow read them; None where there is no table."""
        uri = f"sqlite:///{self.folder / '.tidegate' / 'catalog.db'}"
        with closing(SqlCatalog(LAKE, uri=uri)) as catalog, suppress(NoSuchTableError):
            rows: list[dict[str, Any]] = catalog.load_table((NAMESPACE, stream)).scan().to_arrow().to_pylist()
            return rows
        return None

    def compared(self, stream: str, table: SourceTable) -> str:
        """What differs between a stream's table in the lake and what its source should hold; empty for nothing."""
        found = self.found(stream)
        return "there is no table in the lake" if found is None else different_rows(table.rows, found, table.key)
