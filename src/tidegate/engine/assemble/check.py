"""Implements `tidegate check`: every stream of a project and all of its problems.

Reads no rows and writes nothing; with `--source` it asks each source about its tables, columns, keys and privileges.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tidegate.config import Config, StreamConfig
from tidegate.config.nodes import every
from tidegate.core.batch import Latest
from tidegate.core.display import Shown, counted
from tidegate.core.outcome import Problem
from tidegate.core.ports.format import Format
from tidegate.core.ports.source import Probe, SparkProvider
from tidegate.core.schema import Column, Schema
from tidegate.core.slices import Everything, Keys, Range
from tidegate.core.spelling import suggest
from tidegate.engine import clear_connections
from tidegate.engine.assemble import assemble, locations, patterns
from tidegate.engine.quality.rules import refuse_rules
from tidegate.engine.retention import dated
from tidegate.engine.stream import Stream
from tidegate.errors import CheckFailed, ColumnMissing, ConfigError, DuplicateKeys, TidegateError

RERUN = "Correct tidegate.yaml, then run `tidegate check --source`."


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedStream(Shown):
    """One stream as the project states it.

    Args:
        errors: everything that is wrong with it; empty when it can run.
        notes: what people should know; no reason not to run.
    """

    name: str
    source: str
    strategy: str
    write: str
    target: str
    errors: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        """The errors in words."""
        return tuple(error.message for error in self.errors)

    def to_dict(self) -> dict[str, Any]:
        """JSON types only."""
        about = {name: getattr(self, name) for name in ("name", "source", "strategy", "write", "target")}
        errors = [error.to_dict() for error in self.errors]
        return {**about, "problems": list(self.problems), "errors": errors, "notes": list(self.notes)}


def check_streams(
    config: Config, lakes: Mapping[str, Format], sparks: SparkProvider | None = None
) -> list[CheckedStream]:
    """Every stream, patterns expanded where their source can be reached.

    Args:
        sparks: asks the sources, too; for those whose rows only Spark can count.
    """
    found: list[CheckedStream] = []
    known: list[Stream] = []
    for entry in config.streams:
        kinds = [entry.strategy.items["kind"].text(), entry.write.items["kind"].text()]
        checked = partial(CheckedStream, strategy=kinds[0], write=kinds[1])
        try:
            joined = _joined(config, dict(lakes), entry)
            assemble.refuse_shared_targets(config, [*known, *joined])
        except TidegateError as error:
            errors = _problems(error, config)
            found.append(
                checked(
                    name=entry.name,
                    source=assemble.source_name(entry),
                    target=".".join(entry.target),
                    errors=errors,
                )
            )
            continue
        known += joined
        for stream in joined:
            answer = ask(stream, sparks) if sparks else SourceAnswer()
            found.append(
                checked(
                    name=stream.name,
                    source=stream.source_name,
                    target=str(stream.target),
                    errors=tuple(
                        dict.fromkeys(
                            each
                            for error in (*answer.errors, *_url_errors(stream), *_hook_errors(stream))
                            for each in _problems(error, config, stream.name)
                        )
                    ),
                    notes=tuple(map(config.redact, answer.notes)),
                )
            )
    clear_connections.warn(known)
    return found


def _url_errors(stream: Stream) -> Iterator[TidegateError]:
    """Why the source could not be opened by the URL of its connection; contacts nobody."""
    try:
        stream.source.refuse_urls()
    except ConfigError as error:
        yield error


def _hook_errors(stream: Stream) -> Iterator[TidegateError]:
    """Why hooks could not run here; contacts nobody."""
    for each in stream.policies.after_publish:
        try:
            each.hook.refuse()
        except TidegateError as error:
            yield error


def _joined(config: Config, lakes: dict[str, Format], entry: StreamConfig) -> list[Stream]:
    found = patterns.expanded(config, entry)
    if entry.is_pattern:
        locations.refuse_nested([*(one for one in config.streams if not one.is_pattern), *found], config, lakes)
    return [assemble.join(config, lakes, one) for one in found]


def _problems(error: TidegateError, config: Config, stream: str | None = None) -> tuple[Problem, ...]:
    """The error and those that it carries, each with the stream's name where one is given."""
    errors: tuple[TidegateError, ...] = every(error) if isinstance(error, ConfigError) else (error,)
    return tuple(
        Problem(
            code=each.code,
            message=config.redact(each.message if stream is None else about(stream, each.message)),
            hint=config.redact(each.hint),
            exit_code=each.exit_code,
        )
        for each in errors
    )


def about(stream: str, message: str) -> str:
    """The message with the name of the stream that it is about."""
    return message if repr(stream) in message else f"stream {stream!r}: {message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceAnswer:
    """What a source says of a stream.

    Args:
        errors: why a run would fail.
        notes: what a run does not fail for, and people may not expect.
    """

    errors: list[TidegateError] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keeps the error of a block, which ends there; what follows goes on."""
        try:
            yield
        except TidegateError as error:
            self.errors.append(error)


def ask(stream: Stream, sparks: SparkProvider) -> SourceAnswer:
    """Everything that is wrong with the stream in its source's eyes."""
    answer = SourceAnswer()
    with answer.kept(), stream.source.probe(sparks) as probe:
        columns = probe.schema()
        _ask_columns(stream, columns, probe, answer)
        if not answer.errors:
            _ask_rows(stream, probe, columns, answer)
    if not answer.errors and stream.bound_request is not None:
        with answer.kept(), stream.source.probe(sparks, stream.bound_request) as probe:
            probe.identity()
    return answer


def _ask_columns(stream: Stream, columns: Schema, probe: Probe, answer: SourceAnswer) -> None:
    """Every column that the project names."""
    order = [name for name in stream.order if name not in stream.strategy.cursor]
    for key, names in (("key", stream.key), ("strategy", stream.strategy.cursor), ("write", order)):
        for name in dict.fromkeys(names):
            if columns.find(name) is None:
                answer.errors.append(absent(stream, key, name, columns))
    if stream.strategy.partitions is not None:
        with answer.kept():
            by = stream.strategy.partitions.grouping(probe).column
            if by is not None and columns.find(by) is None:
                raise absent(stream, "strategy", by, columns)
    if (retain := stream.policies.retain) is not None:
        with answer.kept():
            dated(stream.name, retain, columns)
    added: Sequence[Column] = ()
    with answer.kept():
        added = stream.writer.added(columns, stream.strategy.cursor)
    for rule in stream.policies.checks:
        with answer.kept():
            refuse_rules(stream.name, [rule], columns)
    table = Schema(columns=(*columns, *stream.added, *added))
    for problem in stream.format.layout_problems(stream.policies.layout, table):
        answer.errors.append(ConfigError(f"stream {stream.name!r}: {problem}", hint=RERUN))


def absent(stream: Stream, key: str, name: str, columns: Schema) -> ColumnMissing:
    """The error of a column that the project names and the source does not have."""
    return ColumnMissing(
        f"stream {stream.name!r}: `{key}:` names the column {name!r}, which {stream.source_name} does not have; "
        f"{suggest(name, columns.names)}",
        hint=RERUN,
        column=name,
    )


def _ask_rows(stream: Stream, probe: Probe, columns: Schema, answer: SourceAnswer) -> None:
    """Whether every column may be read, and whether the key identifies a row."""
    if stream.strategy.applies_events:
        return
    nothing = Keys(columns=(columns.names[0],), values=())
    with answer.kept():
        probe.fingerprint(nothing)
    if answer.errors or not stream.key or probe.unique(stream.key):
        return
    with answer.kept():
        for name in stream.key:
            nulls = probe.count(Range(cursor=(name,), after=None, upto=None, nulls=True))
            if nulls:
                raise CheckFailed(
                    f"stream {stream.name!r}: the key column {name!r} of {stream.source_name} is NULL in "
                    f"{counted(nulls, 'row')}",
                    hint="Choose a `key:` of columns that are never NULL, or leave these rows out with a `query:`.",
                )
        rows = probe.count(Everything())
        keys = probe.count(Everything(), latest=Latest(key=stream.key, order=()))
        if rows != keys:
            _tell_repeated(stream, rows, keys, answer)


def _tell_repeated(stream: Stream, rows: int, keys: int, answer: SourceAnswer) -> None:
    listed = ", ".join(stream.key)
    finding = f"{stream.source_name} has {counted(rows, 'row')} and {keys} different values of the key ({listed})"
    if not stream.order:
        raise DuplicateKeys(
            f"stream {stream.name!r}: {finding}, and nothing says which row of a key is the latest",
        )
    answer.notes.append(
        f"{finding}; the table keeps one row for each key, the latest by {', '.join(stream.order)}. If every row "
        f"counts, the key needs more columns"
    )
