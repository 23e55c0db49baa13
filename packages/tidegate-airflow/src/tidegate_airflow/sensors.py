"""A sensor that waits until a table is as current as a DAG needs it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue
from airflow.sdk.exceptions import AirflowFailException

from tidegate_airflow.command import Program

if TYPE_CHECKING:
    from airflow.sdk import Context


class TidegateFreshSensor(BaseSensorOperator):
    """Waits until a stream has had a run that succeeded, whether it found rows or nothing new.

    Returns the stream's entry of `status --json`.

    Args:
        stream: its name.
        since: the run has to have ended at this time or later; when the DAG run was due unless given.
        verified: the last load has to be verified, too.
    """

    template_fields: Sequence[str] = ("project_dir", "stream", "profile", "since")

    def __init__(  # noqa: PLR0913 - an operator's arguments
        self,
        *,
        project_dir: str,
        stream: str,
        profile: str | None = None,
        since: datetime | str = "{{ dag_run.run_after.isoformat() }}",
        verified: bool = False,
        executable: str | None = None,
        **more: Any,
    ) -> None:
        super().__init__(**more)
        self.project_dir = project_dir
        self.stream = stream
        self.profile = profile
        self.since = since
        self.verified = verified
        self.executable = executable

    def poke(self, context: Context) -> PokeReturnValue:  # noqa: ARG002 - as Airflow calls it
        """Whether it is time; asks registry and lake, not the source."""
        program = Program(project_dir=self.project_dir, profile=self.profile, executable=self.executable)
        streams = program.ask("status", tell=self.log.debug)["streams"]
        found = next((each for each in streams if each["stream"] == self.stream), None)
        if found is None:
            known = ", ".join(each["stream"] for each in streams)
            raise AirflowFailException(f"there is no stream {self.stream!r}; the project has {known}")
        since = self.since if isinstance(self.since, datetime) else datetime.fromisoformat(self.since)
        last = found["last_success_at"]
        ready = last is not None and datetime.fromisoformat(last) >= since
        return PokeReturnValue(is_done=ready and (not self.verified or found["verified"] is True), xcom_value=found)
