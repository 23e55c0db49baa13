"""Output of a command: the result to stdout, everything else to stderr, with secrets masked.

Prints a traceback only at log level debug.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from tidegate.cli import explanations
from tidegate.cli.logs import LogFormat, LogLevel, set_up
from tidegate.core.cutting import first_line
from tidegate.core.secret_names import redacted, without_logins
from tidegate.core.visible import visible, visible_json
from tidegate.errors import INTERRUPTED, InternalError, TidegateError, interrupted
from tidegate.spark import shared

if TYPE_CHECKING:
    from tidegate.api import Project
    from tidegate.cli.tables import Table

LONGEST_REASON = 1000
UNHARMED = "Nothing is left half done: published rows stay, and the next run continues from there."


_WORD = re.compile(r"\s*(?:`[^`]*`\S*|\S+)")


@dataclass(kw_only=True)
class Shell:
    """The environment of one command.

    Args:
        folder: the project's folder (or its file).
        profile: of the project; None for the project as it is.
        trusted: the project file may run code.
        as_json: print one JSON document, and nothing else, to stdout.
        quiet: no progress and no tables; errors and warnings alone.
        redact: masks secrets in a text; set once the project is loaded.
    """

    folder: Path
    profile: str | None = None
    trusted: bool = False
    as_json: bool = False
    quiet: bool = False
    log_level: LogLevel = LogLevel.INFO
    log_format: LogFormat = LogFormat.TEXT
    redact: Callable[[str], str] = field(default=without_logins, repr=False)
    stream: str | None = field(default=None, init=False)
    _warm: float | None = field(default=None, init=False, repr=False)
    _environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ), init=False, repr=False)
    _of: dict[str, str] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        self._out: TextIO = sys.stdout

    def set_up_log(self) -> None:
        """From here on the log goes where and how this command was asked to; secrets that are known later count."""
        level = LogLevel.WARNING if self.quiet and self.log_level is LogLevel.INFO else self.log_level
        set_up(level=level, form=self.log_format, redact=self._masked)

    @contextmanager
    def project(self, *, partly: bool = False) -> Iterator[Project]:
        """The project, closed at the end. From here on its secrets are masked and the log is set up.

        While it is open, stdout is the command's alone: what other code prints, such as that of a source, is on stderr.

        Args:
            partly: of a file with problems, the part that is valid.
        """
        from tidegate.api import Project  # noqa: PLC0415 - a command that needs no project stays fast

        self.set_up_log()
        opened = Project.inspect if partly else Project.load
        with self._reserved_output(), opened(self.folder, profile=self.profile, trusted=self.trusted) as project:
            self.redact = project.config.redact
            kept = project.config.service.keep_warm
            self._warm = kept.total_seconds() if kept else None
            if self.profile is not None:
                self.say(f"profile: {self.profile}")
                self._of = {"profile": self.profile}
            yield project

    @contextmanager
    def _reserved_output(self) -> Iterator[None]:
        before = self._out
        try:
            with reserved() as self._out:
                yield
        finally:
            self._out = before

    def keep_warm(self) -> None:
        """Leaves a service behind if the project says so, unless this process is one of it."""
        if self._warm and not shared.provided():
            from tidegate.service.warmth import leave_behind  # noqa: PLC0415 - few projects say so

            leave_behind(self.folder, self.same_project(), self._warm, self._environment)

    def same_project(self) -> list[str]:
        """The words by which another command opens the project as this one does, beside `--project`."""
        from tidegate.config import same_project  # noqa: PLC0415 - a command that needs no project stays fast

        return same_project(profile=self.profile, trusted=self.trusted)

    def document(self, values: Mapping[str, Any]) -> None:
        _write(self._out, visible_json(self.json_of({**values, **self._of}, indent=2)))

    def line(self, values: Mapping[str, Any]) -> None:
        """One of the JSON documents of a command that tells several, each on a line."""
        _write(self._out, visible_json(self.json_of(values)))

    def json_of(self, values: Mapping[str, Any], *, indent: int | None = None) -> str:
        """JSON in whose texts secrets are masked."""
        return json.dumps(redacted(values, self.redact), ensure_ascii=False, indent=indent)

    def result(self, text: str) -> None:
        """A line of the result, for people."""
        if not self.quiet and not self.as_json:
            _write(self._out, fitted(self.redact(text), self._out))

    def verbatim(self, text: str) -> None:
        """A part of the result that is copied, so that no line of it may be broken; a pipe gets each character."""
        if not self.quiet and not self.as_json:
            _write(self._out, self.redact(text), exact=not self._out.isatty())

    def table(self, table: Table, *, none: str = "") -> None:
        """A table of the result, for people.

        Args:
            none: what is said instead where it has no rows.
        """
        from tidegate.cli.tables import render  # noqa: PLC0415 - not needed for JSON

        if none and not table.rows:
            self.result(none)
        elif not self.quiet and not self.as_json:
            clean = tuple(tuple(self.redact(cell) for cell in row) for row in table.rows)
            render(replace(table, rows=clean), self._out)

    def say(self, text: str) -> None:
        """A remark on stderr, unless --quiet or --json."""
        if not self.quiet and not self.as_json:
            _write(sys.stderr, fitted(self.redact(text), sys.stderr))

    def problem(self, *, code: str, message: str, hint: str, more: Sequence[str] = ()) -> None:
        """An error on stderr: one sentence, its code, what repairs it, and where more is said."""
        lines = [f"error[{code}]: {message}", *(f"error[{code}]: {text}" for text in more)]
        if hint:
            lines.append(f"  hint: {hint}")
        if hint and explanations.find(code):
            lines.append(f"  more: `tidegate explain {code}`")
        _write(sys.stderr, fitted(self.redact("\n".join(lines)), sys.stderr))

    def guard(self, work: Callable[[], int]) -> int:
        """The command's exit code; an error becomes one, told on stderr or as the JSON document."""
        try:
            return work()
        except KeyboardInterrupt:
            return self._refuse("interrupted", f"interrupted. {UNHARMED}", "", INTERRUPTED)
        except TidegateError as error:
            if interrupted(error):
                return self._refuse("interrupted", f"interrupted. {UNHARMED}", "", INTERRUPTED)
            self._trace()
            hint = error.hint.replace("STREAM", self.stream) if self.stream else error.hint
            return self._refuse(error.code, error.message, hint, error.exit_code, error.context.get("more", ()))
        except BrokenPipeError:
            raise
        except Exception as error:  # noqa: BLE001 - the last border: people get a sentence, not a stack
            self._trace()
            bug = InternalError(f"{type(error).__name__}: {first_line(error, LONGEST_REASON)}")
            return self._refuse(bug.code, bug.message, bug.hint, bug.exit_code)

    def _refuse(self, code: str, message: str, hint: str, exit_code: int, more: Sequence[str] = ()) -> int:
        if self.as_json:
            error = {"code": code, "message": message, "hint": hint, **({"more": list(more)} if more else {})}
            self.document({"error": error, "exit_code": exit_code})
        else:
            self.problem(code=code, message=message, hint=hint, more=more)
        return exit_code

    def _masked(self, text: str) -> str:
        # By name, at the time of the call: the project's secrets are known after the log is set up.
        return self.redact(text)

    def _trace(self) -> None:
        if self.log_level is LogLevel.DEBUG:
            _write(sys.stderr, self.redact(traceback.format_exc()))


def _write(stream: Any, text: str, *, exact: bool = False) -> None:
    text = text if exact else visible(text)
    # A name from a database may hold what the terminal's encoding does not.
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    stream.flush()


@contextmanager
def reserved() -> Iterator[TextIO]:
    """The stream that is stdout; what others print meanwhile, and the processes that they start, goes to stderr."""
    before = sys.stdout
    with _descriptor(before) as own:
        sys.stdout = sys.stderr
        try:
            yield own
        finally:
            sys.stdout = before


@contextmanager
def _descriptor(before: TextIO) -> Iterator[TextIO]:
    try:
        number = before.fileno()
    except (OSError, ValueError):  # closed, or no file
        number = -1
    if number != 1:
        yield before
        return
    before.flush()
    kept = os.dup(1)
    own = os.fdopen(kept, "w", encoding=before.encoding, errors=before.errors)
    os.dup2(2, 1)
    try:
        yield own
    finally:
        os.dup2(kept, 1)
        with suppress(OSError):  # the terminal may be gone
            own.close()


def fitted(text: str, stream: TextIO) -> str:
    return wrapped(text, shutil.get_terminal_size().columns) if stream.isatty() else text


def wrapped(text: str, width: int) -> str:
    """Lines of at most so many characters, but for words that are longer; what goes on is indented by two more.

    Example:
        >>> print(wrapped("  hint: correct it, then `tidegate run orders`", 24))
          hint: correct it, then
            `tidegate run orders`
    """
    return "\n".join(_line(line, width) for line in text.split("\n"))


def _line(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    lines, last = [], ""
    for word in _WORD.findall(line):
        if last.strip() and len(last) + len(word) > width:
            lines.append(last)
            last = indent + word.lstrip()
        else:
            last += word
    return "\n".join([*lines, last])
