"""Tables that lie where their stream says, not where their lake would put them."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.core.ids import Target
from tidegate.errors import ConfigError
from tidegate.storage import Store, local_path


def refuse_filled(target: Target, location: str, open_store: Callable[[str], Store]) -> None:
    """Refuses a place for a new table in which something lies: maintenance would take it for the table's own waste.

    Raises:
        ConfigError: it is not empty.
        WriteError: it cannot be listed from here, so nothing shows that it is empty.
    """
    found = open_store(location).names("")
    if found:
        raise ConfigError(
            f"the location of {target}, {location}, is not empty ({min(found)}), and maintenance would delete what is "
            f"not the table's",
            hint="Name an empty folder, or remove what an earlier table left there.",
        )


def same(found: str | None, wanted: str) -> bool:
    """Whether both name one folder; a local one may be written as `file:/…` and `file:///…`."""
    found = (found or "").rstrip("/")
    return found == wanted or (local_path(wanted) is not None and local_path(found) == local_path(wanted))


def elsewhere(target: Target, found: str | None, wanted: str) -> ConfigError:
    """The error of a table that is there already, in another place."""
    return ConfigError(
        f"the table {target} lies in {found}, but `target: {{location: …}}` says {wanted}",
        hint="Restore the location, or load into another table; files are not moved.",
    )
