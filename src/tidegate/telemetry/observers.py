"""The observers that a project asks for, each loaded only when it is asked for."""

from __future__ import annotations

import atexit
import importlib
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate import extras
from tidegate.config.sections import TelemetryOptions
from tidegate.engine.observers import Observer
from tidegate.errors import ConfigError, EnvironmentMissing, TidegateError

log = logging.getLogger("tidegate")

VARIABLES = {
    "opentelemetry": ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
    "openlineage": ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG"),
}
"""The variables that ask for each where the project says nothing of it."""


@dataclass(slots=True, kw_only=True)
class Observers:
    """Those of one project; `close` sends what has not been sent yet."""

    opened: tuple[Any, ...] = field(default=())

    @classmethod
    def of(cls, options: TelemetryOptions, environ: Mapping[str, str] = os.environ) -> Observers:
        """Those that the options ask for, or else the environment.

        Raises:
            EnvironmentMissing: the options ask for one whose extra is not installed.
            ConfigError: they ask for one whose own configuration is wrong. What only the environment asks for is left
                out with a warning in either case: variables are often set for many programs at once.
        """
        opened = []
        for name, variables in VARIABLES.items():
            asked = getattr(options, name)
            if asked or (asked is None and any(environ.get(each) for each in variables)):
                try:
                    opened.append(importlib.import_module(f"tidegate.telemetry.{name}").opened(environ))
                except ImportError as error:
                    missing = f"{name}: the extra `{name}` is not installed"
                    if asked:
                        raise EnvironmentMissing(missing, hint=extras.hint(name)) from error
                    log.warning("%s, nothing is sent. %s", missing, extras.hint(name))
                except Exception as error:
                    refused = (
                        f"{name}: {error}" if isinstance(error, TidegateError) else f"{name}: {type(error).__name__}"
                    )
                    if asked:
                        hint = f"Correct the variables or the file that configure it, or set `{name}: false`."
                        raise ConfigError(f"{refused} while it was set up", hint=hint) from error
                    log.warning("%s while it was set up, nothing is sent", refused)
        found = cls(opened=tuple(opened))
        if opened:
            atexit.register(found.close)
        return found

    @property
    def asked(self) -> tuple[Observer, ...]:
        return self.opened

    def close(self) -> None:
        """Waits for what is still to be sent, five seconds each at most."""
        atexit.unregister(self.close)
        for each in self.opened:
            each.close()
        self.opened = ()
