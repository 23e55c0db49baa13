"""The demo: real data from a database into Iceberg tables; imported only by `tidegate demo`."""

from tidegate_demo.story import run

__all__ = ["run"]
