"""Wraps every command function: adds the common options and turns errors into exit codes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from typer import Argument, Option

from tidegate.cli.logs import LogFormat, LogLevel
from tidegate.cli.shell import Shell
from tidegate.errors import ConfigError

Streams = Annotated[
    list[str] | None, Argument(metavar="STREAM", help="Names of streams; all streams if none is given.")
]
Stream = Annotated[str, Argument(metavar="STREAM", help="Name of the stream.")]
Select = Annotated[
    list[str] | None,
    Option(
        "--select",
        metavar="SELECTOR",
        help="Select streams, in addition to those named: a pattern ('raw.*'), tag:NAME, state:failed, state:stale or "
        "state:new; terms joined by commas must all apply. Repeatable.",
    ),
]
Exclude = Annotated[
    list[str] | None,
    Option("--exclude", metavar="SELECTOR", help="Leave these streams out; takes what --select takes. Repeatable."),
]


def duration_of(option: str, text: str | None, *, example: str) -> timedelta | None:
    """The value of an option that is a length of time; None if it is not given. Raises ConfigError."""
    from tidegate.core.durations import duration  # noqa: PLC0415 - few calls state one

    try:
        return None if text is None else duration(text)
    except ValueError as error:
        raise ConfigError(f"{option} {text!r} {error}", hint=f"Use a duration, such as {option} {example}.") from error


def _shared(
    project: Annotated[Path, Option(metavar="DIR", help="The project folder, or its file.")] = Path(),
    env: Annotated[
        str | None,
        Option(metavar="PROFILE", envvar="TIDEGATE_ENV", help="The profile to use, such as prod."),
    ] = None,
    trusted: Annotated[
        bool, Option("--trust-project", help="Let the project file run code: settings of Spark, functions, Python.")
    ] = False,
    as_json: Annotated[bool, Option("--json", help="Print one JSON document, and nothing else, to stdout.")] = False,
    quiet: Annotated[bool, Option("--quiet", help="Print no progress and no tables.")] = False,
    log_level: Annotated[LogLevel, Option(help="How much is logged to stderr.")] = LogLevel.INFO,
    log_format: Annotated[LogFormat, Option(help="The format of the log.")] = LogFormat.TEXT,
) -> Shell:
    return Shell(
        folder=project,
        profile=env or None,
        trusted=trusted,
        as_json=as_json,
        quiet=quiet,
        log_level=log_level,
        log_format=log_format,
    )


def _handed(
    local: Annotated[bool, Option("--local", help="Run here, even if a service of the project could run it.")] = False,
) -> None:
    """Read before this process parses anything, by `tidegate.service.caller`."""


_SHARED = inspect.signature(_shared, eval_str=True).parameters
_HANDED = inspect.signature(_handed, eval_str=True).parameters


def _stream_of(values: Mapping[str, Any]) -> str | None:
    """The one stream that a command is about."""
    streams = values.get("streams") or [values.get("stream")]
    return streams[0] if len(streams) == 1 else None


def command(work: Callable[..., int], *, handed: bool = False) -> Callable[..., int]:
    """Makes a command of a function that takes the shell: adds the common options and returns the exit code.

    Args:
        handed: a service of the project would have run it; the first that ran here may leave one behind.
    """

    @functools.wraps(work)
    def run(**values: Any) -> int:
        shell = _shared(**{name: values.pop(name) for name in _SHARED})
        local = [values.pop(name) for name in _HANDED] if handed else [True]
        shell.stream = _stream_of(values)
        code = shell.guard(lambda: work(shell, **values))
        if not any(local) and code != ConfigError.exit_code:  # a service would end at once, too
            shell.keep_warm()
        return code

    hints = get_type_hints(work, include_extras=True)
    own = [
        parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
        for name, parameter in list(inspect.signature(work).parameters.items())[1:]
    ]
    common = [*_SHARED.values(), *(_HANDED.values() if handed else ())]
    shared = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in common]
    signature = inspect.Signature([*own, *shared])
    del run.__wrapped__
    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in [*own, *shared]}
    return run
