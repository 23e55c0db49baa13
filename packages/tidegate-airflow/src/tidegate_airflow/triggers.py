"""Waits for a command that the service of the project runs, while the task holds no worker."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from tidegate_airflow import served


class ServiceTrigger(BaseTrigger):
    """One command; ends with what it printed.

    A triggerer that is restarted asks again: the service ends the command of the lost one, and a load that had been
    published is not loaded twice.

    Args:
        arguments: of the command, after the program's name.
        environment: variables for it; Airflow's database keeps them, so no secrets.
    """

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.arguments = list(arguments)
        self.environment = dict(environment or {})

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """As the triggerer makes it again."""
        return f"{type(self).__module__}.{type(self).__qualname__}", {
            "arguments": self.arguments,
            "environment": self.environment,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """One event: `printed` and `remarks`; `served` is false if no service took the command."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            served.__name__,
            *self.arguments,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **self.environment},
        )
        try:
            printed, remarks = await process.communicate()
        except asyncio.CancelledError:
            if process.returncode is None:
                process.send_signal(signal.SIGINT)
                await process.wait()
            raise
        yield TriggerEvent(  # type: ignore[no-untyped-call]
            {
                "served": process.returncode != served.NO_SERVICE,
                "printed": printed.decode(),
                "remarks": remarks.decode(),
            }
        )
