"""Rows written as somebody else would write them, for loaders to load, in any session."""

from datetime import datetime

from tidegate.loaders._places import OPTIONS


class Bench:
    """A folder of one test, a session, and what is read back by others than the loaders."""

    def __init__(self, session, folder):
        self.spark = session
        self.folder = folder

    def path(self, name):
        return str(self.folder / name)

    @property
    def marks(self):
        return self.path("watermarks")

    def write(self, name, ddl, *rows, mode="append", kind="parquet"):
        """Rows as files of a source; times as text."""
        kinds = [column.strip().split(" ", 1)[1] for column in ddl.split(",")]
        values = [
            tuple(
                datetime.fromisoformat(value) if kind.startswith("timestamp") and isinstance(value, str) else value
                for value, kind in zip(row, kinds, strict=True)
            )
            for row in rows
        ]
        frame = self.spark.createDataFrame(values, ddl).coalesce(1)
        writer = frame.write.mode(mode).format(kind)
        (writer.options(**OPTIONS["csv"]) if kind == "csv" else writer).save(self.path(name))
        return self.path(name)

    def know(self, lake, catalog):
        """Makes a lake's catalog known by another name: a session keeps the one that it used first under a name."""
        for name, value in lake.format.spark_conf().items():
            if not name.startswith("spark.sql.extensions"):
                self.spark.conf.set(name.replace(".catalog.lake", f".catalog.{catalog}"), value)
        (lake.folder / ".tidegate").mkdir()  # where the catalog's file goes

    def rows(self, loader, where, *columns):
        """The rows that a target holds, sorted."""
        rows = loader.read(where)
        return sorted(tuple(row) for row in (rows.select(*columns) if columns else rows).collect())

    def settings(self):
        """The session's settings, but for the one that Delta itself notes there."""
        return {row.key: row.value for row in self.spark.sql("SET").collect() if "lastCommitVersion" not in row.key}

    def watermarks(self):
        """The watermark store, as any reader of Parquet sees it."""
        rows = self.spark.read.parquet(self.marks).collect()
        return {row["table_name"]: row["watermark_value"] for row in rows}
