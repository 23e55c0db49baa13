"""Suites that a plugin's tests inherit: each holds what its kind of plugin owes the engine."""

from tidegate.testing.contracts.check import CheckContract
from tidegate.testing.contracts.format import FormatContract
from tidegate.testing.contracts.lake import FormatBench
from tidegate.testing.contracts.source import SourceContract
from tidegate.testing.contracts.strategy import StrategyContract
from tidegate.testing.contracts.writer import WriterContract

__all__ = ["CheckContract", "FormatBench", "FormatContract", "SourceContract", "StrategyContract", "WriterContract"]
