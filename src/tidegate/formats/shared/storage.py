"""The files below a table's location, read without Spark, and recognizes denied access to a store.

Never deletes anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

from tidegate.core.policies.maintenance import Usage
from tidegate.errors import WriteError
from tidegate.storage import ArrowFiles, FileInfo, Store, of_lake

# Arrow gives one class for all that a store says, and the store's own word for it in its text; an answer without a body
# has none: 400 is said of a token that has ended.
_REFUSED = re.compile(
    r"AWS Error (?:ACCESS_DENIED|SIGNATURE_DOES_NOT_MATCH|INVALID_(?:ACCESS_KEY_ID|CLIENT_TOKEN_ID|SIGNATURE)"
    r"|EXPIRED_TOKEN|UNRECOGNIZED_CLIENT|MISSING_AUTHENTICATION_TOKEN|\w+ \(HTTP status 40[13]\)"
    r"|UNKNOWN \(HTTP status 400\) during HeadObject)"
)
LOGIN = (
    "Correct the credentials (environment, profile, machine role, or `s3.…` of the catalog) or their permissions; "
    "`tidegate doctor` tests it. Those that a catalog gave end after a while: run again."
)


def store_of(location: str) -> Store:
    """The files below a location. Raises WriteError: there is no way to read it from here."""
    return of_lake(location, problem)


def by_client(location: str, connect: Callable[[], Any]) -> Store:
    """The files below a location of an object store.

    Args:
        connect: makes Arrow's client of the store, by whatever settings.

    Raises:
        WriteError: the settings are none that the client takes.
    """
    try:
        files = ArrowFiles(connect())
    except (OSError, ValueError) as error:
        raise problem(location, error) from error
    return Store(where=location, base=location.partition("://")[2], files=files, problem=problem)


def stored(location: str, open_store: Callable[[str], Store] = store_of) -> list[FileInfo]:
    """Every file below the location; none where there is no such folder.

    Raises:
        WriteError: it cannot be listed from here.
    """
    return open_store(location).walk(at_work=True)


def refused(error: BaseException) -> bool:
    """Whether an object store refused the login, or what it may do.

    Example:
        >>> refused(OSError("AWS Error ACCESS_DENIED during HeadObject operation: No response body."))
        True
        >>> refused(OSError("AWS Error UNKNOWN (HTTP status 400) during HeadObject operation: No response body."))
        True
        >>> refused(OSError("AWS Error NETWORK_CONNECTION during HeadObject operation: curlCode: 7"))
        False
    """
    return _REFUSED.search(str(error)) is not None


def usage(location: str, *, files: int = 0, size: int = 0, open_store: Callable[[str], Store] = store_of) -> Usage:
    """What a table takes up, and what else lies below its location, where that can be listed from here.

    Args:
        files, size: of the visible version.
    """
    try:
        found = stored(location, open_store)
    except WriteError:
        return Usage(files=files, bytes=size)
    more, rest = len(found) - files, sum(each.size for each in found) - size
    return Usage(files=files, bytes=size, older_files=max(more, 0), older_bytes=max(rest, 0))


def has_older(location: str, moment: datetime, open_store: Callable[[str], Store]) -> bool:
    """Whether a file below the location was written before then; yes where that cannot be listed from here."""
    try:
        return any(each.written < moment.timestamp() for each in stored(location, open_store))
    except WriteError:
        return True


def problem(where: str, error: Exception) -> WriteError:
    """The error of a file or folder of a table that cannot be read."""
    if refused(error):
        return WriteError(f"the store of {where} denied access", hint=LOGIN)
    if isinstance(error, FileNotFoundError):
        return WriteError(
            f"the file {where} of a table is missing", hint="Restore it, or load the table again elsewhere."
        )
    return WriteError(
        f"{where} cannot be read: {type(error).__name__}",
        hint="Correct `warehouse:` in tidegate.yaml or its permissions; `tidegate doctor` tests it.",
    )
