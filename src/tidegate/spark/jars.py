"""Finds the jars of Maven coordinates: downloaded once, then read from a cache folder.

Also run by `make setup` (`python -m tidegate.spark.jars`) and doctor. Names no registry host (Ivy, which PySpark ships,
knows them) and never imports pyspark.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidegate import extras
from tidegate.errors import EnvironmentMissing
from tidegate.spark import temporary
from tidegate.spark.java import find_java

ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
# The class in it that makes a lake a catalog of Spark.
ICEBERG_CATALOG = "org.apache.iceberg.spark.SparkCatalog"
ICEBERG_AWS = "org.apache.iceberg:iceberg-aws-bundle:1.12.0"
# Hadoop's file system `s3a`, of Spark's own Hadoop. Its SDK is the one in Iceberg's bundle, a tenth of AWS's own.
S3A = (
    "org.apache.hadoop:hadoop-aws:3.4.2",
    ICEBERG_AWS,
    "software.amazon.awssdk:s3-transfer-manager:2.54.17",
    "software.amazon.awssdk:apache-client:2.54.17",
)
DELTA = "io.delta:delta-spark_4.1_2.13:4.4.0"
DELTA_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
DELTA_STORAGE = "io.delta:delta-storage:4.4.0"
# Tidegate's own: a commit to Delta's log in S3 that replaces none.
DELTA_LOG_STORE = "tidegate:delta-log-store:1"
POSTGRESQL = "org.postgresql:postgresql:42.7.13"
KAFKA_SOURCE = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.3"
KAFKA_TOKENS = "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0"
SQLITE = "org.xerial:sqlite-jdbc:3.50.3.0"
# Hadoop's file system of this machine, without a `chmod` started for each file that is written.
LOCAL_FILES = "com.globalmentor:hadoop-bare-naked-local-fs:0.1.0"

# Jars that come with this package.
BUNDLED = {DELTA_LOG_STORE: Path(__file__).parent / "log_store" / "delta-log-store.jar"}

# What a setting of a lake needs on the class path, by what the setting holds: a class, and the jars that bring it.
NEEDED = {
    ICEBERG_CATALOG: (ICEBERG_CATALOG, (ICEBERG,)),
    DELTA_CATALOG: (DELTA_CATALOG, (DELTA, DELTA_STORAGE)),
    "jdbc:sqlite:": ("org.sqlite.JDBC", (SQLITE,)),
    "jdbc:postgresql:": ("org.postgresql.Driver", (POSTGRESQL,)),
}

SHA256 = {
    DELTA: "75a9400986853c061f5109f012547de2545a5759e5e752e5ef633dabe16a4f10",
    DELTA_STORAGE: "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
    ICEBERG_AWS: "dd7e49ffa4ac9b215bed846581991259e3aec9bb2fa08d6cec029c46cd66d957",
    ICEBERG: "3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82",
    LOCAL_FILES: "e0cc30fb0531eb0b59468dc0abf5b257533d2365b5e9f45e795edd707aa78c62",
    POSTGRESQL: "6e0e4cc2d8cae902084f8a2b18728b073a6fd9d1f87c9d8bff8f298c18185b93",
    SQLITE: "a3f53a2aa15ae9425a9e793bbe9c8e5288febeb4b65ef5c1a4e80d4c2045cf08",
    "io.trino:trino-jdbc:476": "a3736d21609a5a317d2ce88b3835e312e9b6f41393c1d4b09f2ad6e7aeb3bb90",
    KAFKA_SOURCE: "cb31ffd9c8f5527dba061db8af671d295562092e4f3f5ff42fc249fab8a8fde6",
    KAFKA_TOKENS: "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767",
    "org.apache.kafka:kafka-clients:3.9.1": "7568b998572d256f0b7bc0afdc1b7a2588b8b08415c62ce314c864a6851ae9d9",
    "org.apache.commons:commons-pool2:2.12.1": "5273c8bc8c0dca2211175c0d27efbd7228efae99689aac001a8e1ef8e872e9ef",
    "org.apache.spark:spark-avro_2.13:4.1.1": "6a19d90bc3b6e88d8db0fa36a19273aa10fea2dbd7a62bb60e4cedd73051b32d",
    "org.apache.hadoop:hadoop-aws:3.4.2": "d2d24e6b715b5656b9d238bf13b6682a07e2004dd36aad74a73aeb854319f4d9",
    "software.amazon.awssdk:apache-client:2.54.17": "0b00ae3d55c3d1213ca47b5651dc4c2a0080fc9b6192dde3d53c3da6c1811bcb",
    "software.amazon.awssdk:s3-transfer-manager:2.54.17": (
        "7bef0ea4efd5e0860bab63e08317040951edb51b72a5be734284c28b8324ab87"
    ),
    "org.duckdb:duckdb_jdbc:2.0.0.0": "5170daa90a43296705127ef3c80834ba1cd275ec9d765a9f7eee346ab0087186",
    "com.microsoft.sqlserver:mssql-jdbc:12.8.1.jre11": (
        "e6933c0711e598a224060e52ed31392f720a4a7664e85d8ae37c52a85b67ebb0"
    ),
    "com.oracle.database.jdbc:ojdbc11:23.5.0.24.07": (
        "2cc69b821da842c5f5be8877444631cf9fa89561f1f6f5ad7bf1293eb669fc27"
    ),
    "net.snowflake:snowflake-jdbc:3.28.0": "41e3e99fde1aa90516448306885b345df7600db650258e7dfd0ea79c02f6cb49",
    "com.teradata.jdbc:terajdbc:20.00.00.49": "0627cf660c444268b64d6d14daca3ea0f9e9a52c2b2dd61dc7caf5dcc41a3fe4",
    "org.mariadb.jdbc:mariadb-java-client:3.5.6": "a129703efd7b0f334564d46753de999f09b3a361489a2eb647e6020390981cc9",
}
SETTINGS = "TIDEGATE_IVY_SETTINGS"
LOGGER = logging.getLogger("tidegate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinate:
    """`organisation:module:revision`."""

    organisation: str
    module: str
    revision: str

    @classmethod
    def parse(cls, text: str) -> Coordinate:
        """The parts of the text. Raises EnvironmentMissing: it has not three parts that are fit for a file name."""
        parts = text.split(":")
        if len(parts) != 3 or not all(part and not set(part) & set("/\\") and part[0] not in "-." for part in parts):
            raise EnvironmentMissing(f"{text!r} is not a Maven coordinate", hint="Use organisation:module:revision.")
        organisation, module, revision = parts
        return cls(organisation=organisation, module=module, revision=revision)

    @property
    def file_name(self) -> str:
        return f"{self.module}-{self.revision}.jar"


def cache_folder() -> Path:
    """`$TIDEGATE_CACHE`, else the user's cache folder."""
    named = os.environ.get("TIDEGATE_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidegate" / "jars"


def resolve(
    coordinates: Sequence[str], folder: Path | None = None, tell: Callable[[str], None] = lambda _: None
) -> tuple[Path, ...]:
    """The jar of each coordinate, in order and once; missing and damaged ones are fetched, without dependencies.

    Two processes may do so at once: a jar appears under its name only when it is whole. A jar that is there, also one
    copied by hand, is compared with what was pinned whenever its size, time or inode is another than last time.

    Args:
        tell: takes a line before each jar that is fetched.

    Raises:
        EnvironmentMissing: one cannot be fetched, is not what was pinned, or the folder cannot be written.
    """
    folder = folder or cache_folder()
    lacking = missing(coordinates, folder)
    for number, text in enumerate(lacking, 1):
        tell(f"fetching {text} ({number} of {len(lacking)})")
        _local(text, folder)
    return tuple(_local(text, folder, tell) for text in dict.fromkeys(coordinates))


def missing(coordinates: Sequence[str], folder: Path | None = None) -> tuple[str, ...]:
    """Those that are not in the cache yet; fetches nothing."""
    folder = folder or cache_folder()
    return tuple(
        text
        for text in dict.fromkeys(coordinates)
        if text not in BUNDLED and not (folder / Coordinate.parse(text).file_name).is_file()
    )


def _local(text: str, folder: Path, tell: Callable[[str], None] = lambda _: None) -> Path:
    if text in BUNDLED:
        return BUNDLED[text]
    coordinate = Coordinate.parse(text)
    path = folder / coordinate.file_name
    damaged = _damage(text, path) if path.is_file() else None
    if damaged is not None:
        LOGGER.warning("%s: fetching it again", damaged)
        tell(f"{damaged}: fetching it again")
    if damaged is None and path.is_file():
        return path
    try:
        with temporary.folder(folder / ".tmp") as place:
            fetched = _fetch(text, coordinate, place, damaged)
            _compare(text, fetched)
            fetched.replace(path)
    except OSError as error:
        raise EnvironmentMissing(
            f"{f'{damaged}, and ' if damaged else ''}the jar cache {folder} cannot be written",
            hint="Set TIDEGATE_CACHE to a folder that can be written.",
        ) from error
    return path


def _damage(text: str, path: Path) -> str | None:
    """Why the file is not the jar that was pinned; None if it is, or if nothing was pinned."""
    if text not in SHA256:
        return None
    note, there = path.with_name(f".{path.name}.checked"), path.stat()
    seen = f"{SHA256[text]} {there.st_size} {there.st_mtime_ns} {there.st_ino}"
    try:
        if note.read_text(encoding="ascii") == seen:
            return None
    except (OSError, ValueError):
        pass  # never checked, or its note is damaged, too
    found = _digest(path)
    if found != SHA256[text]:
        return f"{path} is damaged, or not the jar of {text} (sha256 {found[:12]}…)"
    with contextlib.suppress(OSError):  # a folder that only others may write is checked each time
        note.write_text(seen, encoding="ascii")
    return None


def _fetch(text: str, coordinate: Coordinate, place: Path, damaged: str | None) -> Path:
    java = find_java()
    command = [str(java.path), "-jar", str(_ivy()), "-warn", "-cache", str(place / "ivy"), "-notransitive"]
    settings = os.environ.get(SETTINGS)
    if settings:
        command += ["-settings", settings]
    command += ["-dependency", coordinate.organisation, coordinate.module, coordinate.revision]
    # Main artifacts only: a module that also publishes sources would otherwise land them under the same name.
    command += ["-confs", "default", "-types", "jar", "bundle"]
    command += ["-retrieve", str(place / "[artifact]-[revision].[ext]")]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)  # noqa: S603 - our own command
    except subprocess.TimeoutExpired as error:
        raise _offline(text, damaged) from error
    path = place / coordinate.file_name
    if done.returncode != 0 or not path.is_file():
        raise _offline(text, damaged) from RuntimeError(done.stdout[-4000:] + done.stderr[-4000:])
    return path


def _offline(text: str, damaged: str | None) -> EnvironmentMissing:
    return EnvironmentMissing(
        f"{f'{damaged},' if damaged else f'the jar {text} is not in the cache'} and could not be fetched",
        hint=f"Connect to a network once, or copy it to {cache_folder()}; a mirror can be set with {SETTINGS} (an Ivy "
        "settings file).",
    )


def _compare(text: str, path: Path) -> None:
    pinned = SHA256.get(text)
    if pinned is None:
        return
    found = _digest(path)
    if found != pinned:
        raise EnvironmentMissing(
            f"the jar fetched for {text} is not the one that was pinned (sha256 {found[:12]}…)",
            hint="Check what is between this machine and the registry, such as a proxy; nothing was kept.",
        )


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _ivy() -> Path:
    # pyspark is looked up, not imported: importing it takes longer than the fetch.
    spec = importlib.util.find_spec("pyspark")
    for location in (spec.submodule_search_locations or ()) if spec else ():
        for path in sorted((Path(location) / "jars").glob("ivy-*.jar")):
            return path
    raise EnvironmentMissing(
        "pyspark with its jars is not installed", hint=f"`{extras.install(extras.requirement('pyspark'))}`"
    )


def main() -> None:
    """Fetches what the formats and the embedded defaults need, for `make setup`; with `--all` every pinned jar."""
    wanted = (ICEBERG, LOCAL_FILES, DELTA, DELTA_STORAGE, SQLITE, POSTGRESQL)
    for path in resolve(tuple(SHA256) if "--all" in sys.argv[1:] else wanted):
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
