"""An error whose causes lead back to itself is looked through once."""

from tidegate.errors import SourceError, interrupted


def test_a_cycle_of_causes_ends():
    first, second = SourceError("one"), SourceError("two")
    first.__cause__, second.__cause__ = second, first
    assert not interrupted(first)
    second.__cause__ = KeyboardInterrupt()
    assert interrupted(first)
