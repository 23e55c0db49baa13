"""Probes that answer some questions, for tests of what asks no others."""

from tidegate.core.ports.source import Probe


def _unasked(self, *_args, **_options):
    raise AssertionError(f"{type(self).__name__} was asked something that it has no answer to")


PartialProbe = type("PartialProbe", (Probe,), dict.fromkeys(Probe.__abstractmethods__, _unasked))
"""The base of a probe that answers what it overrides; whoever asks for more fails."""
