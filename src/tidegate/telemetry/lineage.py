"""What OpenLineage is told of a stream at work: run, job, datasets and their facets, by the types of its own client.

No value of a row is part of it beside the bounds of the cursor that a load read up to. What is not known is left out.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.generated import parent_run
from openlineage.client.generated.data_quality_assertions_dataset import Assertion, DataQualityAssertionsDatasetFacet
from openlineage.client.generated.dataset_version_dataset import DatasetVersionDatasetFacet
from openlineage.client.generated.error_message_run import ErrorMessageRunFacet
from openlineage.client.generated.input_statistics_input_dataset import InputStatisticsInputDatasetFacet
from openlineage.client.generated.job_type_job import JobTypeJobFacet
from openlineage.client.generated.nominal_time_run import NominalTimeRunFacet
from openlineage.client.generated.output_statistics_output_dataset import OutputStatisticsOutputDatasetFacet
from openlineage.client.generated.processing_engine_run import ProcessingEngineRunFacet
from openlineage.client.generated.symlinks_dataset import Identifier, SymlinksDatasetFacet

from tidegate.core.outcome import Outcome, Problem
from tidegate.core.plan import LoadPlan
from tidegate.core.policies.rules import OnFail, RuleViolation
from tidegate.core.slices import SnapshotPair
from tidegate.engine.observers import Command, Subject
from tidegate.errors import TidegateError
from tidegate.telemetry import facets
from tidegate.telemetry.datasets import Name, name_of, of_path

RUNS = uuid.UUID("5f0c1f0e-6d1b-5e0a-9f4e-0d6c7c1b7d11")
"""The namespace of the ids of runs: the same run of the same stream has the same id everywhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a stream's work ended.

    Args:
        published: the plans of the loads that were published.
        planned: the plan of the last load; None where none was planned.
        broken: the checks that rows failed.
    """

    state: RunState
    at: str
    outcome: Outcome | None
    error: Problem | None
    published: tuple[LoadPlan, ...]
    planned: LoadPlan | None
    broken: tuple[RuleViolation, ...]


class Lineage:
    """Makes the events of one stream at work.

    Args:
        places: by the uid of a stream the name of its source, for which a database may have been asked; kept here.
    """

    def __init__(self, subject: Subject, environ: Mapping[str, str], places: dict[str, Name | None]) -> None:
        self._subject, self._environ, self._places = subject, environ, places
        self._version = metadata.version("tidegate") if _installed("tidegate") else "0"
        self.facet = functools.partial(facets.make, producer=f"urn:tidegate:{self._version}")

    @staticmethod
    def now() -> str:
        return datetime.now(UTC).isoformat()

    def started(self, at: str) -> RunEvent:
        output = self._output()
        return self._event(RunState.START, at, self._inputs(None), [output] if output else [], {})

    def ended(self, ended: Ended) -> RunEvent:
        """The COMPLETE, FAIL or ABORT event."""
        run = {}
        if ended.error is not None:
            text = f"{ended.error.code}: {ended.error.message}"
            run["errorMessage"] = self.facet(ErrorMessageRunFacet, message=text, programmingLanguage="python")
        inputs, output = self._inputs(ended), self._output()
        if output is not None:
            self._describe(output, inputs, ended)
        return self._event(ended.state, ended.at, inputs, [output] if output else [], run)

    def _event(
        self, state: RunState, at: str, inputs: list[InputDataset], outputs: list[OutputDataset], more: dict[str, Any]
    ) -> RunEvent:
        subject = self._subject
        run_id = uuid.uuid5(RUNS, f"{subject.run_id}\x00{subject.stream.uid}\x00{subject.command}\x00{subject.part}")
        spark = metadata.version("pyspark") if _installed("pyspark") else "unknown"
        engine = self.facet(
            ProcessingEngineRunFacet, version=spark, name="spark", openlineageAdapterVersion=self._version
        )
        job_type = self.facet(
            JobTypeJobFacet, processingType="BATCH", integration="TIDEGATE", jobType=str(subject.command).upper()
        )
        name = subject.stream.name if subject.command is Command.RUN else f"{subject.stream.name}.{subject.command}"
        return RunEvent(
            eventType=state,
            eventTime=at,
            run=Run(runId=str(run_id), facets={"processing_engine": engine, **self._facets(), **more}),
            job=Job(
                namespace=self._environ.get("OPENLINEAGE_NAMESPACE") or "tidegate",
                name=name,
                facets={"jobType": job_type},
            ),
            inputs=inputs,
            outputs=outputs,
            producer=f"urn:tidegate:{self._version}",
        )

    def _facets(self) -> dict[str, Any]:
        """When the schedule wanted the run to begin, and what it is a part of."""
        due_at = self._subject.due_at
        if due_at is None:
            return self._parent()
        return {"nominalTime": self.facet(NominalTimeRunFacet, nominalStartTime=due_at.isoformat()), **self._parent()}

    def _parent(self) -> dict[str, Any]:
        """The run that this one is a part of: `OPENLINEAGE_PARENT_ID=namespace/name/run`, as other tools take it."""
        found = _run_of(self._environ.get("OPENLINEAGE_PARENT_ID"))
        if found is None:
            return {}
        top = _run_of(self._environ.get("OPENLINEAGE_ROOT_PARENT_ID"))
        root = None
        if top is not None:
            root = parent_run.Root(
                run=parent_run.RootRun(runId=top[2]), job=parent_run.RootJob(namespace=top[0], name=top[1])
            )
        namespace, name, run_id = found
        facet = self.facet(
            parent_run.ParentRunFacet,
            run=parent_run.Run(runId=run_id),
            job=parent_run.Job(namespace=namespace, name=name),
            root=root,
        )
        return {"parent": facet}

    def _inputs(self, ended: Ended | None) -> list[InputDataset]:
        name = self._place()
        if name is None:
            return []
        dataset = InputDataset(namespace=name.namespace, name=name.name, facets={}, inputFacets={})
        if ended is not None:
            self._describe_input(dataset, ended)
        return [dataset]

    def _place(self) -> Name | None:
        """The source's name; one that does not answer now is asked again by the next event."""
        stream = self._subject.stream
        if stream.uid not in self._places:
            origin = stream.source.origin()
            name = name_of(origin) if origin is not None else None
            try:
                located = stream.source.located() if name is None else None
            except TidegateError:
                return None
            self._places[stream.uid] = name_of(located) if located is not None else name
        return self._places[stream.uid]

    def _describe_input(self, dataset: InputDataset, ended: Ended) -> None:
        described, input_facets = dataset.facets or {}, dataset.inputFacets or {}
        if ended.planned is not None:
            described["schema"] = facets.schema(self.facet, ended.planned.columns, native=True)
            versions = [part.upto for part in ended.planned.changes.slices if isinstance(part, SnapshotPair)]
            if versions:
                described["version"] = self.facet(DatasetVersionDatasetFacet, datasetVersion=versions[-1])
        outcome = ended.outcome
        if outcome is not None and ended.state is RunState.COMPLETE:
            input_facets["inputStatistics"] = self.facet(
                InputStatisticsInputDatasetFacet, rowCount=outcome.rows_read, size=outcome.bytes_read or None
            )
        subset = facets.subset(self.facet, [part for plan in ended.published for part in plan.changes.slices])
        if subset is not None:
            input_facets["subset"] = subset
        if ended.published or ended.broken:
            assertions = self._assertions(ended.broken, complete=bool(ended.published) and ended.error is None)
            if assertions:
                input_facets["dataQualityAssertions"] = self.facet(
                    DataQualityAssertionsDatasetFacet, assertions=assertions
                )
        dataset.facets, dataset.inputFacets = described, input_facets

    def _assertions(self, broken: Sequence[RuleViolation], *, complete: bool) -> list[Assertion]:
        """The checks of the stream; of a run that failed those that rows failed, for others may be open."""
        failed = {each.rule: each for each in broken}
        found = []
        for rule in self._subject.stream.policies.checks:
            one = failed.get(rule.name)
            if one is None and not complete:
                continue
            columns = rule.check.columns
            found.append(
                Assertion(
                    assertion=rule.check.kind,
                    success=one is None,
                    column=columns[0] if len(columns) == 1 else None,
                    severity="warn" if rule.on_fail is OnFail.WARN else "error",
                    name=rule.name,
                    actual=f"{one.rows} rows" if one is not None and one.rows is not None else None,
                )
            )
        return found

    def _output(self) -> OutputDataset | None:
        """The table, by the place of its files; None before a table that only its catalog places was made."""
        stream = self._subject.stream
        location = stream.format.state(stream.target, stream.uid).location
        if location is None:
            return None
        place, target = of_path(location), stream.target
        symlink = Identifier(
            namespace=self._lake(place), name=".".join((*target.namespace, target.table)), type="TABLE"
        )
        links = self.facet(SymlinksDatasetFacet, identifiers=[symlink])
        return OutputDataset(namespace=place.namespace, name=place.name, facets={"symlinks": links}, outputFacets={})

    def _lake(self, place: Name) -> str:
        """The namespace of the lake's tables by their names: the folder of its warehouse."""
        within = "/".join((*self._subject.stream.target.namespace, self._subject.stream.target.table))
        base = place.name.removesuffix(within).rstrip("/")
        return f"{place.namespace}://{base}" if place.namespace == "file" else f"{place.namespace}/{base}"

    def _describe(self, dataset: OutputDataset, inputs: list[InputDataset], ended: Ended) -> None:
        described, output_facets = dataset.facets or {}, dataset.outputFacets or {}
        outcome, plan = ended.outcome, ended.planned
        if plan is not None and ended.published:
            described["schema"] = facets.schema(self.facet, plan.table, known=plan.columns.names)
            if inputs:
                origin = self._subject.stream.source.origin()
                made = getattr(origin, "made", ())
                source = Name(inputs[0].namespace, inputs[0].name)
                described["columnLineage"] = facets.column_lineage(self.facet, plan, source, made)
        if outcome is not None and outcome.snapshot is not None:
            described["version"] = self.facet(DatasetVersionDatasetFacet, datasetVersion=outcome.snapshot)
        if outcome is not None and ended.state is RunState.COMPLETE and self._subject.command in LOADS:
            written = outcome.rows_inserted + outcome.rows_updated
            output_facets["outputStatistics"] = self.facet(OutputStatisticsOutputDatasetFacet, rowCount=written)
        dataset.facets, dataset.outputFacets = described, output_facets


LOADS = frozenset({Command.RUN, Command.BACKFILL})


def _run_of(text: str | None) -> tuple[str, str, str] | None:
    """Namespace, name and run of a parent; a namespace may hold slashes. None of what is none."""
    parts = (text or "").rsplit("/", 2)
    if len(parts) != 3 or not all(parts):
        return None
    try:
        uuid.UUID(parts[2])
    except ValueError:
        return None
    return parts[0], parts[1], parts[2]


def _installed(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True
