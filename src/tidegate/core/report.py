"""Report of a command: the result of each stream, printable as a table, raised as an error if one failed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Protocol, Self, TypeVar

from tidegate.core.display import NOTHING, as_html, as_text, names_of, text_of
from tidegate.core.outcome import EXIT_ORDER, Outcome, Problem
from tidegate.core.spelling import suggest
from tidegate.errors import TidegateError


class StreamResult(Protocol):
    """The result of one stream."""

    @property
    def stream(self) -> str:
        """The stream's name."""

    @property
    def error(self) -> Problem | None:
        """Why it failed; None where it did not."""


S = TypeVar("S", bound=StreamResult)


class StreamReport(Generic[S]):
    """The results of the streams of one command, in the order of the project.

    Example:
        report = project.run()
        report.raise_on_failure()
        print(report["orders"].rows_inserted)
    """

    __slots__ = ()
    streams: tuple[S, ...]

    @property
    def exit_code(self) -> int:
        """0, or the first of 1, 3, 4, 5 that a stream stands for."""
        codes = {self.exit_code_of(stream) for stream in self.streams} - {0}
        return next((code for code in EXIT_ORDER if code in codes), max(codes, default=0))

    @property
    def ok(self) -> bool:
        """Whether every stream ended well."""
        return self.exit_code == 0

    def raise_on_failure(self) -> Self:
        """The report itself, where every stream ended well.

        Raises:
            TidegateError: of the first stream that did not; its notes name the others.
        """
        failed = [error for stream in self.streams if (error := self.failure_of(stream)) is not None]
        if not failed:
            return self
        first, *others = failed
        for other in others:
            first.add_note(f"also: {other.code}: {other.message}")
        raise first

    def __getitem__(self, name: str) -> S:
        for stream in self.streams:
            if stream.stream == name:
                return stream
        raise KeyError(f"{name!r} is not in this report; {suggest(name, (stream.stream for stream in self.streams))}")

    def __iter__(self) -> Iterator[S]:
        return iter(self.streams)

    def __len__(self) -> int:
        return len(self.streams)

    def __str__(self) -> str:
        return as_text(*self._table()) if self.streams else "no streams"

    def _repr_html_(self) -> str:
        return as_html(*self._table()) if self.streams else "no streams"

    def exit_code_of(self, stream: S) -> int:
        """The exit code that one stream stands for."""
        return stream.error.exit_code if stream.error else 0

    def failure_of(self, stream: S) -> TidegateError | None:
        """The error of one stream; None where it ended well."""
        return stream.error.to_error() if stream.error else None

    def _table(self) -> tuple[list[str], list[list[str]]]:
        names = names_of(type(self.streams[0]))
        rows: list[list[Any]] = [[getattr(stream, name) for name in names] for stream in self.streams]
        wanted = [place for place in range(len(names)) if any(row[place] not in NOTHING for row in rows)]
        return [names[place].replace("_", " ") for place in wanted], [
            [text_of(row[place]) for place in wanted] for row in rows
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport(StreamReport[Outcome]):
    """What one run did to all its streams."""

    run_id: str
    started_at: datetime
    finished_at: datetime
    streams: tuple[Outcome, ...]

    def to_dict(self) -> dict[str, Any]:
        """The document of `run --json`."""
        return {
            "run_id": self.run_id,
            "started_at": self.started_at.isoformat(),
            "finished_at": self.finished_at.isoformat(),
            "exit_code": self.exit_code,
            "streams": [outcome.to_dict() for outcome in self.streams],
        }
