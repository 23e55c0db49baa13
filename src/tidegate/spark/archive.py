"""An archive of parsed Spark classes (CDS), with which a JVM starts in about half the time.

`make setup` (`python -m tidegate.spark.archive`) and doctor create it. Always optional: a JVM that the archive does not
fit starts without it.

Source: JEP 350, Dynamic CDS Archives. An archive fits if Java is the same and the class path starts with that of the
JVM that wrote it; so Spark's own jars come first, then the lake's, then all others.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidegate.errors import EnvironmentMissing
from tidegate.spark import temporary
from tidegate.spark.jars import DELTA, DELTA_STORAGE, ICEBERG, ICEBERG_CATALOG, Coordinate, cache_folder, resolve
from tidegate.spark.java import executable, spark_home
from tidegate.spark.jvm import Jvm

QUIET = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
PATIENCE = 300
UNNOTED = 30 * 24 * 3600
_WORK = (
    "CREATE TABLE {0} (id bigint, name string, at timestamp_ntz, amount decimal(10,2)) {1}",
    "INSERT INTO {0} SELECT id, string(id), timestamp_ntz '2025-01-01 00:00:00', id FROM range(100)",
    """
    MERGE INTO {0} t USING (SELECT id, 'x' AS name FROM range(50, 150)) s ON t.id = s.id
    WHEN MATCHED THEN UPDATE SET t.name = s.name WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, s.name)
    """,
    "SELECT name, count(*), sum(CAST(conv(substr(md5(name), 1, 8), 16, 10) AS bigint)) FROM {0} GROUP BY name",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lake:
    """What a table of a lake is made with.

    Args:
        jars: in the order in which they stand in every class path.
        table: a name in the lake's catalog, and how the statement that makes it ends.
    """

    jars: tuple[str, ...]
    conf: Mapping[str, str]
    table: tuple[str, str]


LAKES = (
    Lake(
        jars=(ICEBERG,),
        conf={
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.lake": ICEBERG_CATALOG,
            "spark.sql.catalog.lake.type": "hadoop",
        },
        table=("lake.shop.t", "USING iceberg TBLPROPERTIES ('write.merge.mode' = 'merge-on-read')"),
    ),
    Lake(
        jars=(DELTA, DELTA_STORAGE),
        conf={
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        },
        table=("spark_catalog.shop.t", "USING delta"),
    ),
)
"""A class path with jars of both begins with those of the first."""


def ordered(coordinates: Sequence[str]) -> tuple[str, ...]:
    """The coordinates, those of lakes first and always in one order."""
    first = [each for lake in LAKES for each in lake.jars if each in coordinates]
    return tuple(dict.fromkeys((*first, *coordinates)))


def options(coordinates: Sequence[str]) -> tuple[str, ...]:
    """What a JVM with these jars is given; nothing where no archive was made for it."""
    lake = _lake(coordinates)
    archive = _file(lake) if lake else None
    return (
        (shlex.quote(f"-XX:SharedArchiveFile={archive}"), "-Xshare:auto", *QUIET)
        if archive and archive.is_file()
        else ()
    )


def make(coordinates: Sequence[str]) -> Path | None:
    """The archive for class paths with these jars, made if it is not there, which takes about 20 seconds and 200 MB.

    It takes the place of one that no longer fits. None where no lake's jar is among them.

    Raises:
        EnvironmentMissing: Spark does not start, or the cache folder cannot be written.
    """
    lake = _lake(coordinates)
    if lake is None:
        return None
    jars = resolve(lake.jars)
    archive = _file(lake)
    if not archive.is_file():
        _put(archive, lambda file: _work(lake, jars, file.parent, file))
    with contextlib.suppress(OSError):  # a cache that is only read
        _note(archive).write_text(json.dumps(_place()), encoding="utf-8")
    return archive


def prune() -> tuple[int, int]:
    """Removes the archives whose Java or Spark is gone; how many, and how many bytes.

    Of those without a note, which older versions made, it removes what has been there for a month.
    """
    removed, freed = 0, 0
    for archive in cache_folder().glob("*.jsa"):
        try:
            if _in_use(archive):
                continue
            size = archive.stat().st_size
            archive.unlink()
            _note(archive).unlink(missing_ok=True)
        except OSError:
            continue  # somebody else was first, or may only read
        removed, freed = removed + 1, freed + size
    return removed, freed


def _in_use(archive: Path) -> bool:
    note = _note(archive)
    if note.is_file():
        return all(Path(part).exists() for part in json.loads(note.read_text(encoding="utf-8")))
    return time.time() - archive.stat().st_mtime < UNNOTED


def _note(archive: Path) -> Path:
    """The file that says where the Java and the Spark of an archive are."""
    return archive.with_name(f"{archive.name.rpartition('-')[0]}.json")


def _put(archive: Path, write: Callable[[Path], None]) -> None:
    """Writes an archive, whole or not at all; those of the same Java, Spark and jars that no longer fit go."""
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        with temporary.folder(archive.parent / ".tmp") as folder:
            write(folder / archive.name)
            (folder / archive.name).replace(archive)
        for other in archive.parent.glob(f"{archive.name.rpartition('-')[0]}-*.jsa"):
            if other != archive:
                other.unlink(missing_ok=True)
    except OSError as error:
        raise EnvironmentMissing(
            f"no class archive was written to {archive.parent}",
            hint="Set TIDEGATE_CACHE to a folder that can be written; runs work without it, but start more slowly.",
        ) from error


def _lake(coordinates: Sequence[str]) -> Lake | None:
    return next((lake for lake in LAKES if set(lake.jars) <= set(coordinates)), None)


def _file(lake: Lake) -> Path:
    """Named by where Java and Spark are, then by what of them is there now.

    A JVM takes an archive only with the very files it was made from, and says nothing where it does not.
    """
    java, jars = map(Path, _place())
    files = [
        java.parents[1] / "lib" / "modules",
        *sorted(jars.glob("*.jar")),
        *(cache_folder() / Coordinate.parse(jar).file_name for jar in lake.jars),
    ]
    place, state = _digest(*_place()), _digest(*map(_stamp, files))
    return cache_folder() / f"{lake.jars[0].split(':')[1]}-{place}-{state}.jsa"


def _place() -> tuple[str, str]:
    """Where Java and Spark's jars are."""
    return str(executable(os.environ).resolve()), str(spark_home() / "jars")


def _stamp(file: Path) -> str:
    """What a JVM compares of a file."""
    if not file.is_file():
        return file.name
    found = file.stat()
    return f"{file.name} {found.st_size} {found.st_mtime_ns}"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def _work(lake: Lake, jars: Sequence[Path], folder: Path, archive: Path) -> None:
    """A small table is made, merged into and read; what the JVM loaded for it, it writes when it ends."""
    warehouse, (table, how) = str(folder / "warehouse"), lake.table
    conf = {
        **lake.conf,
        "spark.master": "local[1]",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": " ".join((shlex.quote(f"-XX:ArchiveClassesAtExit={archive}"), *QUIET)),
        "spark.sql.warehouse.dir": warehouse,
        "spark.sql.catalog.lake.warehouse": warehouse,
    }
    jvm = Jvm()
    session = jvm.start(conf, None, jars=jars)
    try:
        session.sql(f"CREATE NAMESPACE {table.rpartition('.')[0]}")
        for statement in _WORK:
            session.sql(statement.format(table, how)).collect()
        session.stop()
    finally:
        jvm.end(patience=PATIENCE)


def main() -> None:
    """Makes the one of the embedded lake, for `make setup`."""
    sys.stdout.write(f"{make((ICEBERG,))}\n")
    prune()


if __name__ == "__main__":
    main()
