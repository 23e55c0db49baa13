"""Operators that load streams and compare tables with their sources."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import AssetAlias, BaseOperator
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowFailException

from tidegate.cli.documents import Document
from tidegate.service.place import Place
from tidegate_airflow.assets import tidegate_asset
from tidegate_airflow.command import Program, errors_in, fail, read
from tidegate_airflow.lineage import lineage_of, parent_of
from tidegate_airflow.triggers import ServiceTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context

COUNTS = ("rows_read", "rows_inserted", "rows_updated", "rows_deleted", "rows_quarantined")
KEPT = ("stream", "outcome", *COUNTS, "verified", "snapshot")
RUNS = 100
"""How far back a try looks for what the tries before it have loaded."""


class TidegateOperator(BaseOperator):
    """What the operators share.

    Args:
        project_dir: the project's folder or file.
        streams: names; all streams of the project unless these, `select` or `exclude` say otherwise.
        select, exclude: as `--select` and `--exclude` take them.
        profile: of the project, such as `prod`.
        local: run in the task even if a service of the project runs; so does a task with an `environment`.
        executable: where `tidegate` is installed, if not beside Airflow.
        environment: variables for the program, added to the task's.
        deferrable: wait for the service of the project in the triggerer, which has to be on the service's machine.
            Without a service the task runs the command itself.
    """

    template_fields: Sequence[str] = ("project_dir", "streams", "select", "exclude", "profile", "environment")
    ui_color = "#d5ecf0"

    def __init__(  # noqa: PLR0913 - an operator's arguments
        self,
        *,
        project_dir: str,
        streams: str | Sequence[str] = (),
        select: str = "",
        exclude: str = "",
        profile: str | None = None,
        local: bool = False,
        executable: str | None = None,
        environment: Mapping[str, str] | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **more: Any,
    ) -> None:
        super().__init__(**more)
        self.project_dir = project_dir
        self.streams = streams
        self.select = select
        self.exclude = exclude
        self.profile = profile
        self.local = local
        self.executable = executable
        self.environment = environment or {}
        self.deferrable = deferrable
        self._at_work: Program | None = None

    @abstractmethod
    def words(self) -> list[str]:
        """The command, without the project."""

    @abstractmethod
    def finish(self, document: Document, context: Context) -> Any:
        """What the task returns. Raises AirflowException, AirflowFailException."""

    def execute(self, context: Context) -> Any:
        """Runs the command, or leaves it to the service of the project."""
        program = self._program(context)
        if self.deferrable and not self.local and self._served():
            trigger = ServiceTrigger(program.arguments(*self.words()), environment=parent_of(context))
            self.defer(trigger=trigger, method_name="execute_complete")
        return self._here(program, context)

    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> Any:
        """Goes on with what the service has answered."""
        for line in event["remarks"].splitlines():
            self.log.info(line)
        if not event["served"]:
            self.log.warning("the service of the project is not there any more: running without it")
            return self._here(self._program(context), context)
        return self.finish(read(event["printed"], event["remarks"]), context)

    def on_kill(self) -> None:
        """Ends the command as Ctrl-C does."""
        if self._at_work is not None:
            self._at_work.interrupt()

    def _here(self, program: Program, context: Context) -> Any:
        words = [*self.words(), *(["--local"] if self.local or self.environment else [])]
        return self.finish(program.ask(*words, tell=self.log.info), context)

    def _program(self, context: Context) -> Program:
        self._at_work = Program(
            project_dir=self.project_dir,
            profile=self.profile,
            executable=self.executable,
            environment={**parent_of(context), **self.environment},
        )
        return self._at_work

    def _served(self) -> bool:
        if self.environment:
            self.log.warning("`environment` is for a program of the task: running without the service")
            return False
        connection = Place.of(self.project_dir).connect()
        if connection is not None:
            connection.close()
        return connection is not None

    def _chosen(self) -> list[str]:
        names = [self.streams] if isinstance(self.streams, str) else list(self.streams)
        options = (("--select", self.select), ("--exclude", self.exclude))
        return [*names, *(word for option, text in options if text for word in (option, text))]


class TidegateRunOperator(TidegateOperator):
    """Loads streams; returns a list with one mapping a stream: what became of it.

    Adds an event to the asset of each table that was loaded and not found different, see `tidegate_asset`; none where
    nothing was new. A try after a failed one also adds those of the tries before it, which Airflow had dropped.

    Args:
        options: of the strategies, as `--set` takes them.
        full_refresh: load every row again, without asking whether that is meant.
        parallel: streams that are loaded in parallel.
    """

    template_fields: Sequence[str] = (*TidegateOperator.template_fields, "options")

    def __init__(
        self, *, options: Mapping[str, Any] | None = None, full_refresh: bool = False, parallel: int = 1, **more: Any
    ) -> None:
        super().__init__(**more)
        self.alias = AssetAlias(f"tidegate {self.task_id}")
        self.outlets = [*self.outlets, self.alias]
        self.locations: list[str | None] = []
        self.options = options or {}
        self.full_refresh = full_refresh
        self.parallel = parallel

    def words(self) -> list[str]:
        """`run …`."""
        given = [word for name, value in self.options.items() for word in ("--set", f"{name}={json.dumps(value)}")]
        refresh = ["--full-refresh", "--yes"] if self.full_refresh else []
        return ["run", *self._chosen(), "--parallel", str(self.parallel), *refresh, *given]

    def finish(self, document: Document, context: Context) -> list[dict[str, Any]]:
        """One mapping a stream. Raises as the base class."""
        streams = document["streams"]
        for each in streams:
            if is_loaded(each) or (each["outcome"] == "unchanged" and self._loaded_before(each["stream"], context)):
                self._publish(each, context)
        if errors := errors_in(streams):
            fail(errors)
        return [{name: each[name] for name in KEPT} for each in streams]

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """The tables that were loaded, for Airflow's own OpenLineage events; Tidegate's name this task as parent."""
        return lineage_of(getattr(task_instance.task, "locations", ()))

    def _publish(self, outcome: Mapping[str, Any], context: Context) -> None:
        table = self._program(context).ask("show", outcome["stream"], tell=self.log.debug)
        self.locations.append(table["location"])
        extra = {f"tidegate/{name}": outcome[name] for name in KEPT if outcome[name] is not None}
        context["outlet_events"][self.alias].add(tidegate_asset(table["target"]), extra=extra)

    def _loaded_before(self, name: str, context: Context) -> bool:
        """Whether an earlier try of this task has loaded the stream: its events were dropped when it failed."""
        if context["ti"].try_number < 2:
            return False
        since = context["dag_run"].run_after
        asked = self._program(context).ask("history", name, "--limit", str(RUNS), tell=self.log.debug)
        loads = (run for run in asked["runs"] if run["outcome"] == "loaded")
        return any(datetime.fromisoformat(run["started_at"]) >= since for run in loads)


class TidegateVerifyOperator(TidegateOperator):
    """Compares tables with their sources; fails for good where one differs. Returns one mapping a stream.

    Args:
        level: `counts`, `checksum` or `rows`.
        repair: load the rows that differ again.
    """

    def __init__(self, *, level: str = "checksum", repair: bool = False, **more: Any) -> None:
        super().__init__(**more)
        self.level = level
        self.repair = repair

    def words(self) -> list[str]:
        """`verify …`."""
        return ["verify", *self._chosen(), "--level", self.level, *(["--repair"] if self.repair else [])]

    def finish(self, document: Document, context: Context) -> list[dict[str, Any]]:  # noqa: ARG002 - as the base class
        """One mapping a stream. Raises as the base class."""
        streams: list[dict[str, Any]] = document["streams"]
        if errors := errors_in(streams):
            fail(errors)
        if different := [each["stream"] for each in streams if each["equal"] is not True]:
            names = " ".join(different)
            raise AirflowFailException(
                f"tables differ from their sources: {', '.join(different)}\n"
                f"  hint: `tidegate verify {names} --level rows` counts the rows, `--repair` loads them again."
            )
        return streams


def is_loaded(outcome: Mapping[str, Any]) -> bool:
    """Whether a run has changed the table, and its rows were not found to be others than those of the source."""
    return outcome["outcome"] == "loaded" and outcome["error"] is None and outcome["verified"] is not False
