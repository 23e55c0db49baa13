"""The project as definitions see it: its streams, read without asking a source (but for patterns of streams)."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tidegate import Project
from tidegate.config import Config, StreamConfig
from tidegate.config.options import KIND
from tidegate.engine.stream import Stream


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamProps:
    """A stream, as a translator sees it.

    Args:
        stream: its source, table, strategy, writer and policies.
        entry: its entry in the project file, with tags and owner; that of the pattern for a stream of a pattern.
        source_kind: `database`, `files`, `change_log`, …
        format: of its lake, `iceberg` or `delta`.
    """

    stream: Stream
    entry: StreamConfig
    source_kind: str
    format: str

    @property
    def name(self) -> str:
        """The stream's name."""
        return self.stream.name

    @property
    def takes_partitions(self) -> bool:
        """Whether a range of its source can be loaded again: it has a cursor and rows with keys."""
        return bool(self.stream.strategy.cursor) and self.stream.writer.idempotent and self.stream.writer.needs_key


@dataclass(frozen=True, slots=True, kw_only=True)
class TidegateProject:
    """A project on this machine, and those of its streams that are meant.

    Args:
        folder: with the `tidegate.yaml`, or that file.
        profile: one of those under `profiles:`.
        select, exclude: selectors as `--select` and `--exclude` take them; without `select` every stream.
    """

    folder: Path
    profile: str | None = None
    select: tuple[str, ...] = field(default=())
    exclude: tuple[str, ...] = field(default=())

    @classmethod
    def of(cls, project: TidegateProject | Path | str) -> TidegateProject:
        """A project by itself or by its folder."""
        return project if isinstance(project, TidegateProject) else cls(folder=Path(project))

    def open(self) -> Project:
        """The project; to be closed. Raises ConfigError."""
        return Project.load(self.folder, profile=self.profile)

    def streams(self) -> Sequence[StreamProps]:
        """The streams that are meant, in the order of the project; the source of a pattern is asked for its tables.

        Raises:
            ConfigError: the project is not valid, or no stream is meant.
        """
        with self.open() as project:
            found = project.streams(select=self.select, exclude=self.exclude)
            return [_props(each, project.config) for each in found]


def _props(stream: Stream, config: Config) -> StreamProps:
    entry = _entry_of(stream.name, config.streams)
    lake = config.lakes[stream.target.lake]
    return StreamProps(
        stream=stream, entry=entry, source_kind=entry.source.items[KIND].text(), format=lake.items[KIND].text()
    )


def _entry_of(name: str, entries: Sequence[StreamConfig]) -> StreamConfig:
    own = next((each for each in entries if each.name == name), None)
    return own or next(each for each in entries if each.is_pattern and fnmatch.fnmatchcase(name, each.name))
