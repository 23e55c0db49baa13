"""A Parquet table with the watermark of each target, for people to look up.

Written after a commit. A load never starts from it, but from the target's own position.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.dialects.spark import Spark
from tidegate.loaders._handover import handed_over
from tidegate.loaders._places import files
from tidegate.spark.caching import uncached

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = "table_name string, watermark_value string, last_updated timestamp"
# What a folder's name cannot hold; Spark reads it back.
_SPECIAL = re.compile(r"""[\x00-\x20"#%'*/:=?\\{}\[\]^\x7f]""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermarks:
    """The store at a path: `table_name | watermark_value | last_updated`.

    Every table has a folder of its own, so that loads side by side do not overwrite each other's row.
    """

    spark: SparkSession
    path: str

    def get(self, name: str) -> str | None:
        """The value that is written down for a table; None for none."""
        folder = self._folder(name)
        if not files(self.spark, folder):
            return None
        row = uncached(self.spark).schema(COLUMNS).parquet(folder).select("watermark_value").first()
        return None if row is None else row[0]

    def put(self, name: str, value: str | None) -> None:
        """Writes the value down as of now, if it is another one."""
        if value is None or self.get(name) == value:
            return
        text = Spark().string
        row = self.spark.range(1).selectExpr(
            f"{text(name)} AS table_name", f"{text(value)} AS watermark_value", "current_timestamp() AS last_updated"
        )
        with handed_over(row.coalesce(1)) as written:
            written.write.mode("overwrite").parquet(self._folder(name))

    def _folder(self, name: str) -> str:
        return posixpath.join(self.path, f"table_name={escaped(name)}")


def escaped(name: str) -> str:
    """A name as Spark writes it into a folder's.

    Example:
        >>> escaped("shop/orders=1")
        'shop%2Forders%3D1'
    """
    return _SPECIAL.sub(lambda found: f"%{ord(found[0]):02X}", name)
