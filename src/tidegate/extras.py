"""Names the commands that install what is missing, by the requirements of the installed distribution.

They name the packages themselves, which come from wherever Tidegate's other requirements came from.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
from collections.abc import Iterator
from importlib import metadata

_EXTRA = re.compile(r"extra\s*==\s*['\"]([\w-]+)['\"]")


def hint(extra: str) -> str:
    """What installs an extra, as the hint of an error.

    Example:
        >>> hint("kafka").startswith("Install the extra `kafka`")
        True
    """
    packages = tuple(_requirements(extra))
    return f"Install the extra `{extra}`: `{install(*packages)}`." if packages else f"Install the extra `{extra}`."


def requirement(package: str) -> str:
    """A package that is always needed, with the version that is; its name alone where nobody says which.

    Example:
        >>> requirement("pyspark").startswith("pyspark==")
        True
    """
    return next((text for text in _requirements(None) if re.match(rf"{package}\b", text)), package)


def version() -> str:
    """That of the installed distribution; `unknown` in a zip of the package, which nothing has installed."""
    try:
        return metadata.version("tidegate")
    except metadata.PackageNotFoundError:
        return "unknown"


def install(*packages: str) -> str:
    """The command that installs packages into this environment, which may have no pip of its own."""
    pip = (
        ["pip", "install"] if importlib.util.find_spec("pip") else ["uv", "pip", "install", "--python", sys.executable]
    )
    return shlex.join([*pip, *packages])


def _requirements(extra: str | None) -> Iterator[str]:
    try:
        known = metadata.requires("tidegate") or ()
    except metadata.PackageNotFoundError:  # a zip of the package, which `spark-submit --py-files` takes
        return
    for text in known:
        package, _, marker = text.partition(";")
        named = _EXTRA.search(marker)
        if (named[1] if named else None) == extra:
            yield package.strip()
