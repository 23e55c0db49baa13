"""Suites that a plugin's tests inherit: each holds what its kind of plugin owes the engine."""

from tidegate.testing.contracts.source import SourceContract
from tidegate.testing.contracts.strategy import StrategyContract
from tidegate.testing.contracts.writer import WriterContract

__all__ = ["SourceContract", "StrategyContract", "WriterContract"]
