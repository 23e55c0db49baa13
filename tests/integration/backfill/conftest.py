"""The bench of the tests of deletes: one SQLite table, one stream."""

from integration.deletes.conftest import bench_of

__all__ = ["bench_of"]
