"""What the sources `http` and `dlt` have in common: how their rows reach the table."""

from __future__ import annotations

import hashlib
import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from tidegate.core.bounds import BoundRequest
from tidegate.core.flavours import Flavour
from tidegate.core.origin import Origin
from tidegate.core.ports.source import Source, SparkProvider
from tidegate.core.schema import Schema
from tidegate.core.slices import Files as Chosen
from tidegate.core.slices import Slice
from tidegate.errors import ConfigError
from tidegate.sources._api.extraction import Extraction
from tidegate.sources._api.probe import Api, ApiProbe
from tidegate.sources.shared.files.types import stated
from tidegate.sources.shared.frame_probe import LazySpark, reading

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STAGING = Path(".tidegate", "staging")
WHOLE_ANSWER = (
    "is for tables; of an API, state the types of columns with `columns:`, and leave fields out in the request or in "
    "the resource"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSource(Source[ApiProbe]):
    """Rows that a request gives, kept as files before they are loaded.

    Args:
        columns: exact types of columns, above all of times and decimals: `{at: timestamptz}`.
        staging: the folder of the answers; `.tidegate/staging/STREAM` unless given.
        keep_raw: how long answers are kept that the table holds; forever unless given.
        folder: the project's.
        stream: its name.
        increments: each answer is what is new, for strategy `files`; else each is all there is.
    """

    kind: ClassVar[str]
    unsupported: ClassVar[Mapping[str, str]] = dict.fromkeys(("include", "exclude"), WHOLE_ANSWER)
    reads: ClassVar[frozenset[type]] = frozenset({Chosen})

    columns: Mapping[str, str] = field(default_factory=dict)
    staging: str | None = None
    keep_raw: timedelta | None = None
    folder: Path = field(default_factory=Path.cwd, metadata={"given": True}, repr=False)
    stream: str = field(default="", metadata={"given": True}, repr=False)
    increments: bool = field(default=True, metadata={"given": True}, repr=False)

    def __post_init__(self) -> None:
        stated(self.columns)
        if self.staging is not None and "://" in self.staging:
            raise ConfigError(f"staging: {self.staging!r} is not a folder of this machine, or one mounted into it")
        if self.keep_raw is not None and self.keep_raw < timedelta(0):
            raise ConfigError("keep_raw: must not be negative")

    @property
    @abstractmethod
    def label(self) -> str:
        """How people call what is asked; without a secret."""

    @property
    def identity(self) -> str:
        """What makes it another source when it changes; see `Probe.identity`."""
        return f"{self.kind}:{self.label}"

    @abstractmethod
    def extraction(self, since: str | None) -> Extraction:
        """One pass from that state on."""

    @classmethod
    def flavours(cls) -> Iterator[Flavour]:
        """Rows as files have them; what bounds them nobody but the API could know."""
        yield Flavour(name=cls.kind, reads=cls.reads, bounds=frozenset())

    @property
    def flavour(self) -> Flavour:
        return next(self.flavours())

    def origin(self) -> Origin | None:
        """Nobody can name it as a dataset."""
        return None

    @contextmanager
    def probe(self, sparks: SparkProvider | None = None, bound: BoundRequest | None = None) -> Iterator[ApiProbe]:
        """Opens the answers without Spark; the API is asked with the first question about rows."""
        spark = LazySpark(sparks)
        api = Api(
            label=self.label,
            identity=self.identity,
            stream=self.stream,
            extract=self.extraction,
            folder=self.place,
            types=stated(self.columns),
            keep=self.keep_raw,
            increments=self.increments,
        )
        try:
            probe = ApiProbe(api, spark)
            probe.bound = bound
            yield probe
        finally:
            spark.close()

    @property
    def place(self) -> Path:
        """The folder of the answers."""
        if self.staging is not None:
            return self.folder / self.staging
        plain = re.sub(r"[^A-Za-z0-9-]", "_", self.stream)[:80]
        unique = "" if plain == self.stream else f".{hashlib.sha256(self.stream.encode()).hexdigest()[:8]}"
        return self.folder / STAGING / f"{plain}{unique}"

    def read(self, session: SparkSession, probe: ApiProbe, parts: Sequence[Slice], schema: Schema) -> DataFrame:
        """The rows of the slices, from exactly the answers that were listed."""
        with reading(self.label):
            return probe.read(session, parts, schema)

    def jars(self) -> tuple[str, ...]:
        """None: answers are Parquet on disk."""
        return ()

    def spark_conf(self) -> Mapping[str, str]:
        return {}
