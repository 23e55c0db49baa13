"""The catalog of an Iceberg lake: its configuration for Spark and PyIceberg, and direct reads without either.

Never puts a secret into a message. Catalogs that are plain tables in SQLite or PostgreSQL are read without PyIceberg,
whose import would cost more than the check of an unchanged stream.
"""

from __future__ import annotations

import gzip
import json
import re
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, unquote, urlsplit

from tidegate import extras
from tidegate.core.ids import Target
from tidegate.core.keepalive import LIBPQ
from tidegate.core.secret_names import SECRET_NAME
from tidegate.core.table_facts import TableAddress
from tidegate.errors import ConfigError, EnvironmentMissing, Incompatible, TidegateError, WriteError
from tidegate.formats.iceberg.metadata import Metadata
from tidegate.formats.shared.storage import LOGIN, by_client, refused, store_of
from tidegate.spark import jars
from tidegate.spark.failures import REFUSED_BY_CATALOG
from tidegate.storage import Store, local_path

if TYPE_CHECKING:
    from pyiceberg.table import Table

EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
SERVED = frozenset({"rest", "glue"})  # catalogs that engines elsewhere ask themselves
DELEGATION, VENDED = "header.x-iceberg-access-delegation", "vended-credentials"
OF_VENDED = {
    # Iceberg keeps a table, and its credentials, for as long as the table does not change: they may end before.
    "rest-table-cache.max-entries": "0",
    # Iceberg deletes the last files of a batch without the credentials of their table, and only logs that it could not.
    "s3.delete.batch-size": "1",
}
NESSIE = "nessie.is-nessie-catalog"
"""What a Nessie server says of itself. Source: Nessie's `IcebergConfigurer`."""
TYPES = ("sqlite", "postgresql", "rest", "glue", "hive")
REFUSALS = frozenset({"UnauthorizedError", "ForbiddenError", "AuthorizationExpiredError", "OAuthError"})
_HIVE_NAME = re.compile(r"\w+", re.ASCII)
_POINTER = (
    "SELECT metadata_location FROM iceberg_tables "
    "WHERE catalog_name = {0} AND table_namespace = {0} AND table_name = {0}"
)
_NAMES = (
    "SELECT table_name FROM iceberg_tables "
    "WHERE catalog_name = {0} AND table_namespace = {0} AND substr(table_name, 1, {0}) = {0} ORDER BY table_name"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """One catalog.

    Args:
        name: the lake's name, which is the catalog's.
        kind: one of `TYPES`.
        options: the user's; those that are not understood here are handed on to Spark and PyIceberg.
        warehouse: where tables lie; None leaves it to the catalog.
        folder: the project's folder, for the embedded catalog.
    """

    name: str
    kind: str
    options: Mapping[str, str]
    warehouse: str | None
    folder: Path

    @classmethod
    def of(cls, *, name: str, warehouse: str | None, catalog: Mapping[str, Any], folder: Path) -> Catalog:
        """From the `catalog:` of a lake.

        Raises:
            ConfigError: a type that nobody knows, or an option that the type needs is missing.
        """
        options = {key: str(value) for key, value in catalog.items()}
        kind = options.pop("type", "sqlite")
        if kind not in TYPES:
            raise ConfigError(f"lake {name!r}: catalog type {kind!r} is not known; known types: {', '.join(TYPES)}")
        if "url" in options:
            options["uri"] = options.pop("url")
        if kind in ("postgresql", "rest", "hive") and not options.get("uri"):
            raise ConfigError(f"lake {name!r}: a catalog of type {kind} needs `uri:`")
        if kind == "sqlite" and {option for option in options if "." not in option} - {"path"}:
            raise ConfigError(
                f"lake {name!r}: a catalog of type sqlite accepts only `path:` and storage options (`s3.…`)"
            )
        return cls(name=name, kind=kind, options=options, warehouse=_location(warehouse, kind, folder), folder=folder)

    @property
    def file(self) -> Path:
        return self.folder / self.options.get("path", ".tidegate/catalog.db")

    @property
    def in_tables(self) -> bool:
        """Whether the catalog is a table of a database that is read here."""
        return self.kind in ("sqlite", "postgresql")

    @property
    def vends(self) -> bool:
        """Whether the catalog is asked for the credentials of the store, table by table."""
        return any(name.lower() == DELEGATION and VENDED in value for name, value in self.options.items())

    def jars(self) -> tuple[str, ...]:
        """What Spark needs on its class path."""
        driver = {"sqlite": (jars.SQLITE,), "postgresql": (jars.POSTGRESQL,)}.get(self.kind, ())
        local = (jars.LOCAL_FILES,) if str(self.warehouse).startswith("file:") else ()
        # A catalog that decides itself where tables are has no warehouse here, but options of its store.
        stated = str(self.warehouse).startswith("s3") or any(name.startswith("s3.") for name in self.options)
        objects = stated or self.kind == "glue" or self.vends
        return (jars.ICEBERG, *local, *driver, *((jars.ICEBERG_AWS,) if objects else ()))

    def spark_conf(self) -> dict[str, str]:
        """Settings that make it a catalog of a session, its cache off: a position must never be read from a cache."""
        options = {"type": "jdbc" if self.in_tables else self.kind, "cache-enabled": "false"}
        if self.warehouse:
            options["warehouse"] = self.warehouse
            if self.warehouse.startswith("s3"):
                options["io-impl"] = "org.apache.iceberg.aws.s3.S3FileIO"
        if self.vends:
            options |= OF_VENDED
        options.update(self._jdbc() if self.in_tables else self.options)
        prefix = f"spark.sql.catalog.{self.name}"
        return {
            "spark.sql.extensions": EXTENSIONS,
            prefix: jars.ICEBERG_CATALOG,
            **{f"{prefix}.{key}": value for key, value in options.items()},
        }

    def pyiceberg(self) -> dict[str, str]:
        """The same catalog in PyIceberg's words."""
        found = {key: value for key, value in self.options.items() if key != "path"}
        if self.kind == "sqlite":
            found |= {"type": "sql", "uri": f"sqlite:///{self.file}"}
        elif self.kind == "postgresql":
            found |= {
                "type": "sql",
                "uri": "postgresql+psycopg" + self.options["uri"][self.options["uri"].index(":") :],
            }
        else:
            found["type"] = self.kind
        return found | ({"warehouse": self.warehouse} if self.warehouse else {})

    def load(self, target: Target) -> Metadata | None:
        """The table's metadata as of now; None if the catalog does not know the table.

        Raises:
            WriteError: catalog or metadata cannot be read.
        """
        if not self.in_tables:
            table = self.table(target)
            return Metadata(json.loads(table.metadata.model_dump_json(by_alias=True))) if table else None
        location = self._pointer(target)
        return self._read(location, target) if location else None

    def table(self, target: Target) -> Table | None:
        """The table through PyIceberg; None if the catalog does not know it.

        Raises:
            ConfigError: a name that the catalog does not take.
            WriteError: the catalog cannot be reached.
        """
        if self.in_tables:
            location = self._pointer(target)
            if location is None:
                return None
            from pyiceberg.table import StaticTable  # noqa: PLC0415 - the import costs more than a check may

            return StaticTable.from_metadata(location, self.pyiceberg())
        self._need_name(target)
        from pyiceberg.catalog import load_catalog  # noqa: PLC0415 - as above
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError  # noqa: PLC0415 - as above

        try:
            with load_catalog(self.name, **self.pyiceberg()) as catalog:
                return catalog.load_table((*target.namespace, target.table))
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
        except Exception as error:
            raise self._unreachable(error) from error

    def store(self, location: str, target: Target | None = None) -> Store:
        """The files below a location, by the lake's own settings of its object store; the environment says the rest.

        Args:
            target: the table that lies there; a catalog that gives credentials gives them with it.

        Raises:
            WriteError: there is no way to read it from here.
        """
        if not location.startswith("s3"):
            return store_of(location)
        from pyiceberg.io.pyarrow import PyArrowFileIO  # noqa: PLC0415 - the import costs more than a check may

        table = self.table(target) if target is not None and self.kind == "rest" else None
        options = table.io.properties if table is not None else self.pyiceberg()
        scheme, _, path = location.partition("://")
        bucket, _, _ = path.partition("/")
        return by_client(location, lambda: PyArrowFileIO(options).fs_by_scheme(scheme, bucket))

    def store_of(self, target: Target) -> Callable[[str], Store]:
        """Opens what lies below the location of a table, see `store`."""
        return partial(self.store, target=target)

    def need_branches(self, target: Target) -> None:
        """Refuses loads where the server says that it is one of those that keep no branches of tables.

        Raises:
            Incompatible: as above.
            WriteError: the catalog cannot be reached.
        """
        if self.kind != "rest":
            return
        from pyiceberg.catalog import load_catalog  # noqa: PLC0415 - the import costs more than a check may

        try:
            with load_catalog(self.name, **self.pyiceberg()) as catalog:
                nessie = catalog.properties.get(NESSIE) == "true"
        except Exception as error:
            raise self._unreachable(error) from error
        if nessie:
            raise no_branches(target, "the catalog of {}, a Nessie server,")

    def tables(self, target: Target, prefix: str) -> list[str]:
        """The names of the tables beside the target that begin so. Raises WriteError: the catalog cannot be reached."""
        if self.in_tables:
            wanted = (self.name, ".".join(target.namespace), len(prefix), prefix)
            return [row[0] for row in self._ask(_NAMES, wanted)]
        from pyiceberg.catalog import load_catalog  # noqa: PLC0415 - the import costs more than a check may
        from pyiceberg.exceptions import NoSuchNamespaceError  # noqa: PLC0415 - as above

        try:
            with load_catalog(self.name, **self.pyiceberg()) as catalog:
                names = [name for *_, name in catalog.list_tables(target.namespace)]
        except NoSuchNamespaceError:
            return []
        except Exception as error:
            raise self._unreachable(error) from error
        return sorted(name for name in names if name.startswith(prefix))

    def _need_name(self, target: Target) -> None:
        """A metastore refuses other names in words of its own, and some of them late."""
        names = (*target.namespace, target.table)
        if self.kind == "hive" and (len(names) != 2 or not all(map(_HIVE_NAME.fullmatch, names))):
            raise ConfigError(
                f"{target} cannot be a table of Hive, which needs a database and a table name of letters, digits and _",
                hint="Use another `target:` in tidegate.yaml.",
            )

    def _jdbc(self) -> dict[str, str]:
        if self.kind == "sqlite":
            uri = f"jdbc:sqlite:{self.file}?busy_timeout=10000"
            stores = {key: value for key, value in self.options.items() if key != "path"}
            return {"uri": uri, "jdbc.schema-version": "V1", **stores}
        parts = urlsplit(self.options["uri"])
        host = f"{parts.hostname or '127.0.0.1'}:{parts.port or 5432}"
        found = {"uri": f"jdbc:postgresql://{host}{parts.path}" + (f"?{parts.query}" if parts.query else "")}
        found["jdbc.schema-version"] = "V1"
        if parts.username:
            found["jdbc.user"] = unquote(parts.username)
        if parts.password:
            found["jdbc.password"] = unquote(parts.password)
        return found | {key: value for key, value in self.options.items() if key != "uri"}

    def address(self, target: Target) -> TableAddress:
        """Where engines elsewhere find the table; a catalog of servers is asked by them, a table of a database is not.

        Raises:
            WriteError: the catalog cannot be reached.
        """
        path = self._pointer(target) if self.in_tables else None
        if self.kind not in SERVED and not self.in_tables:
            found = self.table(target)
            path = found.metadata_location if found else None
        secret = {name for name in self.options if SECRET_NAME.search(name)}
        shown = {name: value for name, value in self.options.items() if name not in secret}
        if self.kind not in SERVED:
            shown.pop("uri", None)
        return TableAddress(
            format="iceberg",
            catalog=self.kind,
            warehouse=self.warehouse,
            path=path,
            options=shown,
            logins=frozenset(secret),
        )

    def _pointer(self, target: Target) -> str | None:
        wanted = (self.name, ".".join(target.namespace), target.table)
        rows = self._ask(_POINTER, wanted)
        return rows[0][0] if rows else None

    def _ask(self, question: str, wanted: tuple[Any, ...]) -> list[Any]:
        return self._ask_sqlite(question, wanted) if self.kind == "sqlite" else self._ask_postgresql(question, wanted)

    def _ask_sqlite(self, question: str, wanted: tuple[Any, ...]) -> list[Any]:
        if not self.file.is_file():
            return []
        try:
            with closing(sqlite3.connect(f"file:{quote(str(self.file))}?mode=ro", uri=True, timeout=10)) as connection:
                return connection.execute(question.format("?"), wanted).fetchall()
        except sqlite3.Error as error:
            if "no such table" in str(error):
                return []
            raise self._unreachable(error) from error

    def _ask_postgresql(self, question: str, wanted: tuple[Any, ...]) -> list[Any]:
        import psycopg  # noqa: PLC0415 - only for this kind of catalog

        uri = "postgresql" + self.options["uri"][self.options["uri"].index(":") :]
        try:
            stated = psycopg.conninfo.conninfo_to_dict(uri)
            with psycopg.connect("", **cast("Any", {"connect_timeout": 10, **LIBPQ, **stated})) as connection:
                return connection.execute(question.format("%s"), wanted).fetchall()
        except psycopg.errors.UndefinedTable:
            return []
        except psycopg.Error as error:
            raise self._unreachable(error) from error

    def _read(self, location: str, target: Target) -> Metadata:
        try:
            data = self._bytes(location)
            return Metadata(json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data))
        except (OSError, ValueError, EOFError) as error:
            if refused(error):
                raise WriteError(f"the store of {location} denied access", hint=LOGIN) from error
            problems: dict[type[Exception], str] = {PermissionError: "may not be read", FileNotFoundError: "is missing"}
            raise WriteError(
                f"the metadata file of table {target} {problems.get(type(error), 'is damaged or unreachable')}",
                hint=f"The catalog names {location}; restore it, or run `tidegate doctor` to test the warehouse.",
            ) from error

    def _bytes(self, location: str) -> bytes:
        path = local_path(location)
        if path is not None:
            return path.read_bytes()
        from pyiceberg.io import load_file_io  # noqa: PLC0415 - reads every object store that PyIceberg reads

        with load_file_io(self.pyiceberg(), location).new_input(location).open() as file:
            return file.read()

    def _unreachable(self, error: Exception) -> TidegateError:
        if type(error).__name__ == "NotInstalledError":
            return EnvironmentMissing(
                f"the package for the catalog of lake {self.name!r}, of type {self.kind}, is not installed",
                hint=extras.hint(self.kind),
            )
        if self.kind == "sqlite":
            where = str(self.file)
            if "database is locked" in str(error):
                return WriteError(
                    f"the catalog of lake {self.name!r} ({where}) is locked by another process",
                    hint=f"Run again when that process has finished: `fuser {where}` names it.",
                )
        else:
            parts = urlsplit(self.options.get("uri", ""))
            where = f"{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}" or self.kind
        if type(error).__name__ in REFUSALS:
            return WriteError(f"the catalog of lake {self.name!r} ({where}) refused the login", hint=REFUSED_BY_CATALOG)
        return WriteError(
            f"the catalog of lake {self.name!r} ({where}) cannot be read: {type(error).__name__}",
            hint="Correct `lakes:` in tidegate.yaml or start the catalog; `tidegate doctor` tests it.",
        )


def no_branches(target: Target, catalog: str = "the catalog of {}") -> Incompatible:
    """The refusal of a catalog that accepts a branch of a table and keeps none."""
    return Incompatible(
        f"{catalog.format(target)} ignores branches of tables, so rows would be visible before they are verified",
        hint="Keep the lake in another catalog: a database, Hive, Glue, or a REST catalog with branches.",
    )


def _location(warehouse: str | None, kind: str, folder: Path) -> str | None:
    if warehouse is None:
        if kind not in ("sqlite", "postgresql"):
            return None
        warehouse = "./warehouse"
    if "://" in warehouse or warehouse.startswith("file:") or kind in ("rest", "glue"):
        return warehouse.rstrip("/")
    return f"file://{(folder / warehouse).resolve()}"
