"""Implements `tidegate check`: every stream of a project and all of its problems.

Reads no rows and writes nothing; with `--source` it asks each source about its tables, columns, keys and privileges.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from tidegate.config import Config, StreamConfig
from tidegate.config.nodes import every
from tidegate.core.display import Shown
from tidegate.core.outcome import Problem
from tidegate.core.ports.format import Format
from tidegate.core.ports.source import SparkProvider
from tidegate.engine import clear_connections
from tidegate.engine.assemble import assemble, locations, patterns, source_check
from tidegate.engine.stream import Stream
from tidegate.errors import ConfigError, TidegateError


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
            answer = source_check.ask(stream, sparks) if sparks else source_check.SourceAnswer()
            found.append(
                checked(
                    name=stream.name,
                    source=stream.source_name,
                    target=str(stream.target),
                    errors=tuple(
                        each
                        for error in (*answer.errors, *_url_errors(stream), *_hook_errors(stream))
                        for each in _problems(error, config, stream.name)
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
