"""A source without rows: its table is created, left for later, or the error of its columns is reported."""

from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tidegate.core.outcome import Result
from tidegate.core.schema import BIGINT, TIMESTAMP, Column, Schema
from tidegate.errors import ColumnsUnknown, SchemaRefused, SourceRefused, TidegateError
from tidegate.strategies.watermark import Watermark
from tidegate.testing import LocalProject, MemorySource
from tidegate.testing.project import TARGET
from tidegate.testing.source import MemoryProbe
from tidegate.writers.merge import Merge

COLUMNS = Schema(columns=(Column(name="id", type=BIGINT, nullable=False), Column(name="changed", type=TIMESTAMP)))


class Untold(MemoryProbe):
    """No row, and an error instead of columns."""

    error: TidegateError

    def schema(self):
        raise self.error


@dataclass(kw_only=True)
class Failing(MemorySource):
    error: TidegateError

    @contextmanager
    def probe(self, sparks=None, bound=None):
        with super().probe(sparks, bound) as probe:
            found = Untold(name=self.name, held=probe.held, at=self.clock(), key=self.key, bound=bound)
            found.error = self.error
            yield found


class Nothing(Watermark):
    """Finds nothing, and asks for nothing."""

    def detect(self, *_):
        return None


def load(error, folder):
    source = Failing(schema=COLUMNS, key=("id",), error=error)
    with LocalProject(
        source=source, strategy=Nothing(column="changed"), writer=Merge(), spark=None, folder=folder, key=("id",)
    ) as project:
        return project.run(), project.format.state(TARGET, project.stream.uid)


def test_columns_that_only_rows_would_show_are_waited_for(tmp_path):
    outcome, table = load(ColumnsUnknown("there is no file yet"), tmp_path)
    assert (outcome.outcome, outcome.error, table.exists) == (Result.UNCHANGED, None, False)


@pytest.mark.parametrize(
    "error",
    [
        SchemaRefused("no column type of a lake table can store these columns exactly: 'shape' (polygon)"),
        SourceRefused("the login of loader was refused"),
    ],
)
def test_any_other_error_is_reported_as_it_is(error, tmp_path):
    outcome, table = load(error, tmp_path)
    assert (outcome.error.code, outcome.error.message) == (error.code, error.message)
    assert outcome.outcome in (Result.STOPPED, Result.FAILED)
    assert not table.exists
