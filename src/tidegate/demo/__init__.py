"""The main job on real data, from nothing; imported only by the command that runs it."""

from tidegate.demo.story import run

__all__ = ["run"]
