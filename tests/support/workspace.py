"""A project in a folder of its own, with readers that are not Tidegate."""

import json
import os
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import yaml
from pyiceberg.catalog.sql import SqlCatalog

from tidegate.api import Project


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """A folder with `tidegate.yaml`; the lake is the embedded catalog."""

    folder: Path

    def write(self, streams: dict, *, connections: dict, **rest) -> None:
        values = {"connections": connections, "streams": streams, **rest}
        (self.folder / "tidegate.yaml").write_text(yaml.safe_dump(values, sort_keys=False, allow_unicode=True))

    @property
    def file(self) -> Path:
        return self.folder / "tidegate.yaml"

    def project(self, spark=None) -> Project:
        return Project.load(self.file, spark=spark)

    def run(self, *names, spark=None, **options):
        with self.project(spark) as project:
            return project.run(*names, **options)

    def table(self, name: str):
        catalog = SqlCatalog("lake", uri=f"sqlite:///{self.folder / '.tidegate' / 'catalog.db'}")
        return catalog.load_table(tuple(name.split(".")))

    def has_table(self, name: str) -> bool:
        catalog = self.folder / ".tidegate" / "catalog.db"
        if not catalog.exists():
            return False
        return SqlCatalog("lake", uri=f"sqlite:///{catalog}").table_exists(tuple(name.split(".")))

    def rows(self, name: str) -> list[dict]:
        """What PyIceberg reads, sorted."""
        return sorted(self.table(name).scan().to_arrow().to_pylist(), key=lambda row: json.dumps(row, default=str))

    def snapshots(self, name: str) -> int:
        return len(self.table(name).metadata.snapshots)

    def forget_registry(self) -> None:
        for path in (self.folder / ".tidegate").glob("registry.db*"):
            path.unlink()

    def cli(self, *arguments: str, env: dict | None = None) -> subprocess.CompletedProcess:
        """The command line in a process of its own."""
        return subprocess.run(
            [sys.executable, "-m", "tidegate", *arguments, "--project", str(self.folder)],
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
            env={**os.environ, **(env or {})},
        )


@dataclass(frozen=True, kw_only=True)
class SqliteShop:
    """A source database in one file."""

    path: Path

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path}"

    def sql(self, *statements: str) -> None:
        with sqlite3.connect(self.path) as connection:
            for statement in statements:
                connection.execute(statement)
        connection.close()

    def rows(self, query: str) -> list[tuple]:
        connection = sqlite3.connect(self.path)
        try:
            return connection.execute(query).fetchall()
        finally:
            connection.close()
