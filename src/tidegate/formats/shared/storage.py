"""Lists the files below a table's location without Spark, and recognizes denied access to a store.

Never deletes anything.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tidegate.core.policies.maintenance import Usage
from tidegate.errors import WriteError

# Arrow gives one class for all that a store says, and the store's own word for it in its text.
_REFUSED = re.compile(
    r"AWS Error (?:ACCESS_DENIED|SIGNATURE_DOES_NOT_MATCH|INVALID_(?:ACCESS_KEY_ID|CLIENT_TOKEN_ID|SIGNATURE)"
    r"|EXPIRED_TOKEN|UNRECOGNIZED_CLIENT|MISSING_AUTHENTICATION_TOKEN|\w+ \(HTTP status 40[13]\))"
)
LOGIN = (
    "Correct the credentials (environment, profile, machine role, or `s3.…` of the catalog) or their permissions; "
    "`tidegate doctor` tests it."
)


@dataclass(frozen=True, slots=True)
class Stored:
    """One file; `path` is relative to the location."""

    path: str
    bytes: int
    written_at: datetime


def stored(location: str) -> Iterator[Stored]:
    """Every file below the location; none where there is no such folder.

    Raises:
        WriteError: it cannot be listed from here.
    """
    if location.startswith("file:") or "://" not in location:
        yield from _local(Path("/" + location.removeprefix("file:").lstrip("/")))
        return
    from pyarrow import fs  # type: ignore[import-untyped]  # noqa: PLC0415 - not for local tables

    try:
        store, root = fs.FileSystem.from_uri(re.sub(r"^s3[an]://", "s3://", location))
        found = store.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True))
    except (OSError, ValueError) as error:
        if refused(error):
            raise WriteError(f"the store of {location} denied access", hint=LOGIN) from error
        raise WriteError(
            f"{location} cannot be listed: {type(error).__name__}",
            hint="Correct `warehouse:` in tidegate.yaml or its permissions; `tidegate doctor` tests it.",
        ) from error
    for each in found:
        if each.is_file:
            yield Stored(each.path.removeprefix(f"{root}/"), each.size, each.mtime or datetime.now(UTC))


def refused(error: BaseException) -> bool:
    """Whether an object store refused the login, or what it may do.

    Example:
        >>> refused(OSError("AWS Error ACCESS_DENIED during HeadObject operation: No response body."))
        True
        >>> refused(OSError("AWS Error NETWORK_CONNECTION during HeadObject operation: curlCode: 7"))
        False
    """
    return _REFUSED.search(str(error)) is not None


def usage(location: str) -> Usage | None:
    """What lies below the location; None where that cannot be listed from here."""
    files = total = 0
    try:
        for each in stored(location):
            files += 1
            total += each.bytes
    except WriteError:
        return None
    return Usage(files=files, bytes=total)


def _local(root: Path) -> Iterator[Stored]:
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder, name)
            try:
                told = path.stat()
            except FileNotFoundError:
                continue  # a writer at work took it away
            at = datetime.fromtimestamp(told.st_mtime, UTC)
            yield Stored(str(path.relative_to(root)), told.st_size, at)
