"""Iterates over a resource of dlt from a state that an earlier iteration ended with.

The state is kept by whoever keeps the rows; no pipeline of dlt, and nothing in its folders, is made or read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from traceback import clear_frames
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from tidegate import extras
from tidegate.core.cutting import first_line
from tidegate.errors import ConfigError, EnvironmentMissing, SourceError, SourceUnavailable, TidegateError
from tidegate.sources._api.cursors import is_ahead

LONGEST_REASON = 200
"""Characters of what somebody else's code says."""
VALIDATORS = "validators"
"""The key of a state under which a source keeps what tells an unchanged answer, such as its ETag."""


class NotModified(Exception):
    """The API says that what it answered last has not changed."""


@dataclass(slots=True)
class Extraction:
    """One pass over a resource.

    Args:
        make: the resource or source of dlt; called once, with the state, in which it may keep `VALIDATORS`.
        label: how people call it.
        since: a `state` of an earlier pass; None for the beginning.
        whole: everything is wanted, whatever was read before; only the validators of `since` are used.
        quotes: what an exception says may be told: it is raised by the user's code, not about a record of the API.
        ended: called when all was read, or when an error ended the pass that no further attempt helps.
    """

    make: Callable[[dict[str, Any]], Any]
    label: str
    since: str | None = None
    whole: bool = False
    quotes: bool = True
    ended: Callable[[], None] = lambda: None
    ahead: int = field(default=0, init=False)
    """Records that were left to a later pass, because their cursor is ahead of the clock."""
    _state: dict[str, Any] = field(default_factory=dict, init=False)

    def pages(self) -> Iterator[Any]:
        """What the resource yields: records, lists of them, or tables.

        Raises:
            NotModified: nothing has changed.
            SourceUnavailable, SourceRefused, SourceError: the API did not answer, or not with records.
            EnvironmentMissing: dlt is not installed.
        """
        with translated(self.label):
            try:
                from dlt.common import json as typed_json  # noqa: PLC0415 - a second, and only for APIs
                from dlt.common.configuration.container import Container  # noqa: PLC0415 - as above
                from dlt.common.pipeline import StateInjectableContext  # noqa: PLC0415 - as above
            except ImportError as error:
                raise EnvironmentMissing("dlt is not installed", hint=extras.hint("dlt")) from error
            self._state = typed_json.typed_loads(self.since) if self.since else {}
            if self.whole:
                self._state = {VALIDATORS: self._state.get(VALIDATORS, {})}
            with Container().injectable_context(StateInjectableContext(state=self._state)):  # type: ignore[arg-type]
                made = one_resource(self.make(self._state), self.label)
                found = iter(made if self.whole else self._up_to_now(made))
        with translated(self.label, quotes=self.quotes):
            try:
                yield from found
                self._check_cursors()
            except BaseException as error:
                if not any(getattr(each, "retryable", False) for each in _chain(error)):
                    self.ended()
                raise
            self.ended()

    def _up_to_now(self, made: Any) -> Any:
        """The same without the records whose cursor is a time to come: all that comes until then would be left out."""
        from dlt.common.jsonpath import find_values  # noqa: PLC0415 - as above

        several = getattr(made, "selected_resources", None)
        made = made if several is None else made.clone()
        resource = made if several is None else next(iter(made.selected_resources.values()))
        step = resource.incremental
        if step is None:
            return made

        def has_come(record: Any) -> bool:
            incremental = getattr(step, "incremental", step)
            if not isinstance(record, dict) or incremental is None or incremental.last_value_func is not max:
                return True
            ahead = any(is_ahead(each, datetime.now(UTC)) for each in find_values(incremental.cursor_path, record))
            self.ahead += ahead
            return not ahead

        resource.add_filter(has_come)
        return made

    def _check_cursors(self) -> None:
        """Raises SourceError where a table of Arrow, which is passed on whole, moved the cursor to a time to come."""
        sources = () if self.whole else self._state.get("sources", {}).values()
        resources = [each for source in sources for each in source.get("resources", {}).values()]
        for path, known in (pair for each in resources for pair in each.get("incremental", {}).items()):
            last = known.get("last_value")
            if last != known.get("initial_value") and is_ahead(last, datetime.now(UTC)):
                raise SourceError(
                    f"{self.label} yielded a row whose cursor {path!r} is ahead of the clock, so all that comes until "
                    f"then would be left out",
                    hint="Correct that row, or leave it out in the resource until its time has come.",
                )

    def state(self) -> str:
        """What the next pass goes on from; complete once every page was taken."""
        from dlt.common import json as typed_json  # noqa: PLC0415 - as above

        return str(typed_json.typed_dumps(self._state))


def without_validators(state: str) -> str:
    """A state without its HTTP validators: only the place where the next pass continues.

    Example:
        >>> without_validators('{"validators": {"etag": "1"}, "since": 7}')
        '{"since": 7}'
    """
    found = json.loads(state)
    found.pop(VALIDATORS, None)
    return json.dumps(found, sort_keys=True)


def without_logins(url: str) -> str:
    """A URL without user and query, in which logins may be.

    Example:
        >>> without_logins("https://me:secret@api.example.com:8443/v1/rows?key=secret")
        'https://api.example.com:8443/v1/rows'
    """
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def one_resource(found: Any, label: str) -> Any:
    """The resource itself, or the only one that a source has selected.

    Raises:
        ConfigError: it is neither, or a source of several.
    """
    selected = getattr(found, "selected_resources", None)
    if selected is not None and len(selected) != 1:
        names = ", ".join(selected)
        raise ConfigError(
            f"{label} has {len(selected)} resources ({names}), and a stream loads one",
            hint="Name it with `source: {resource: …}`; make a stream for each of the others.",
        )
    if selected is None and not hasattr(found, "write_disposition"):
        raise ConfigError(f"{label} is {type(found).__name__}, and neither a source nor a resource of dlt")
    return found


@contextmanager
def translated(label: str, *, quotes: bool = True) -> Iterator[None]:
    """Turns what dlt, or the code of a source, raises into an error for people, without addresses and their secrets.

    Args:
        quotes: what the exception says may be told.
    """
    try:
        yield
    except (Exception, SystemExit) as error:
        causes = list(_chain(error))
        own = next((each for each in causes if isinstance(each, TidegateError | NotModified)), None)
        if own is not None:
            raise own from None
        if any(isinstance(each, SystemExit) for each in causes):
            clear_frames(error.__traceback__)  # in which dlt has left its contexts open
            raise SourceError(
                f"{label} wanted to end the process (sys.exit), so it may not have yielded everything",
                hint="Let it return, or raise an exception; nothing was loaded.",
            ) from error
        about = next(filter(None, map(_about_cursor, causes)), None)
        if about is not None:
            raise SourceError(
                f"{label} answered a record {about}",
                hint="Correct `cursor_path:`, and write `initial_value:` as the records have it.",
            ) from error
        root = causes[-1]
        if isinstance(root, OSError | TimeoutError):
            raise SourceUnavailable(f"{label} did not answer: {type(root).__name__}") from error
        said = f": {first_line(root, LONGEST_REASON)}" if quotes else ""
        raise SourceError(
            f"{label} failed with {type(root).__name__}{said}",
            hint="Correct the source; `--log-level debug` shows where it was raised.",
        ) from error


CURSOR_FAULTS = {
    "IncrementalCursorPathMissing": "without the cursor {path!r}",
    "IncrementalCursorPathHasValueNone": "whose cursor {path!r} is null",
    "IncrementalCursorInvalidCoercion": "whose cursor {path!r} cannot be compared with the one before",
}
"""What dlt's exceptions about a cursor mean, which quote the record."""


def _about_cursor(error: BaseException) -> str | None:
    found = CURSOR_FAULTS.get(type(error).__name__)
    path = getattr(error, "cursor_path", getattr(error, "json_path", ""))
    return found.format(path=path) if found else None


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    following: BaseException | None = error
    while following is not None and id(following) not in seen:
        seen.add(id(following))
        yield following
        following = following.__cause__ or following.__context__
