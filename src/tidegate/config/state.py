"""Where a project keeps its registry, its catalog and its tables unless the file says otherwise."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.config.nodes import Node

REGISTRY = "sqlite:///.tidegate/registry.db"
WAREHOUSE = "./warehouse"
EMBEDDED = "sqlite"
"""The type of a catalog in a file of its own."""
LOCAL_CATALOGS = (EMBEDDED, "postgresql", "spark")
"""The types of catalogs whose lake needs a warehouse; for the others it is optional, and may be a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The places of one environment.

    Args:
        name: of the profile that is an environment of its own; None for the project itself.
    """

    name: str | None = None

    @property
    def registry(self) -> str:
        return REGISTRY if self.name is None else f"sqlite:///.tidegate/{self.name}/registry.db"

    @property
    def warehouse(self) -> str:
        """The folder of the tables."""
        return WAREHOUSE if self.name is None else f"{WAREHOUSE}-{self.name}"

    def catalog_of(self, catalog: Node) -> Node:
        """An embedded catalog with its file; as it is where it states one, or the format's own default is meant."""
        if self.name is None or catalog.get("path") is not None:
            return catalog
        kind, path = (Node(value=text, mark=catalog.mark) for text in (EMBEDDED, f".tidegate/{self.name}/catalog.db"))
        return catalog.updated({"type": kind, "path": path})
