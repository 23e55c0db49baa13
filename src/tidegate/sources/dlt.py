"""The source `dlt`: a source or resource of dlt, from this project or from any package.

Chosen by `source: {dlt: "package.module:name"}`. Where the resource was read up to is kept in the table's own commit.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tidegate import extras
from tidegate.errors import ConfigError, EnvironmentMissing
from tidegate.sources._api.extraction import Extraction
from tidegate.sources._api.source import ApiSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Dlt(ApiSource):
    """A source or resource of dlt.

    Args:
        dlt: `package.module:name` of a source, a resource, or a function that makes one.
        args: what the function is called with.
        resource: of a source with several, the one that is loaded.
        columns: exact types of columns, above all of times and decimals: `{at: timestamptz}`.
        staging: the folder of the answers; `.tidegate/staging/STREAM` unless given.
        keep_raw: how long answers are kept that the table holds; forever unless given.
    """

    kind: ClassVar[str] = "dlt"

    dlt: str
    args: Mapping[str, Any] = field(default_factory=dict, repr=False)
    resource: str | None = None

    def __post_init__(self) -> None:
        ApiSource.__post_init__(self)
        module, _, name = self.dlt.partition(":")
        if not all(part.isidentifier() for part in (*module.split("."), name)):
            raise ConfigError(f"dlt: {self.dlt!r} is not `package.module:name`")

    @property
    def label(self) -> str:
        """Its name, and the resource's."""
        return self.dlt if self.resource is None else f"{self.dlt} ({self.resource})"

    def extraction(self, since: str | None) -> Extraction:
        """One pass over the resource."""
        return Extraction(make=lambda _: self._made(), label=self.label, since=since, whole=not self.increments)

    def _made(self) -> Any:
        found = self._named()
        made = found(**self.args) if callable(found) else found
        if self.resource is None:
            return made
        known = getattr(made, "resources", {})
        if self.resource not in known:
            raise ConfigError(f"{self.dlt} has no resource {self.resource!r}; it has {', '.join(known) or 'none'}")
        return made.with_resources(self.resource)

    def _named(self) -> Any:
        module, _, name = self.dlt.partition(":")
        folder = str(self.folder)
        if folder not in sys.path:
            sys.path.insert(0, folder)
        try:
            found = importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name == "dlt":
                raise EnvironmentMissing("dlt is not installed", hint=extras.hint("dlt")) from error
            raise ConfigError(
                f"dlt: there is no module {error.name!r}",
                hint=f"Modules are looked for in {folder} and among the installed packages.",
            ) from error
        try:
            return getattr(found, name)
        except AttributeError as error:
            raise ConfigError(f"dlt: module {module} has no {name!r}") from error
