"""The resource that loads the streams of a step and tells Dagster what became of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dagster import AssetExecutionContext, AssetKey, ConfigurableResource, Failure, RetryRequested
from pydantic import Field

from tidegate import Project
from tidegate.cli.documents import Document, may_pass
from tidegate.engine.stream import VerifyLevel
from tidegate.errors import ConfigError, InternalError, TidegateError, VerifyFailed, error_of
from tidegate.results import TableView
from tidegate_dagster import checks, events
from tidegate_dagster.events import AssetEvent, StreamAsset
from tidegate_dagster.partitions import Window, load_window, window_of
from tidegate_dagster.project import TidegateProject
from tidegate_dagster.runner import Runner
from tidegate_dagster.translator import STREAM, UID


class TidegateResource(ConfigurableResource[Any]):
    """Loads streams.

    Example:
        @tidegate_assets(project="warehouse")
        def warehouse(context: AssetExecutionContext, tidegate: TidegateResource):
            yield from tidegate.run(context)
    """

    project_dir: str = Field(description="The project folder, or its file.")
    profile: str | None = Field(default=None, description="The profile to use, such as prod.")
    options: dict[str, Any] = Field(
        default_factory=dict, description="Options of the strategies, as `--set` takes them."
    )
    parallel: int = Field(default=1, ge=1, description="Streams of a step that are loaded in parallel.")
    local: bool = Field(default=False, description="Load in this process even if a service of the project runs.")
    retries: int = Field(default=3, ge=0, description="How often a step is tried again after a temporary error.")
    retry_after: float = Field(default=30.0, ge=0, description="Seconds until then.")

    def run(self, context: AssetExecutionContext, *, options: Mapping[str, Any] | None = None) -> Iterator[AssetEvent]:
        """Loads the selected streams of the step; yields what became of each as soon as it is known.

        The failure of one stream does not keep the others from being loaded; it is raised at the end.

        Args:
            options: of the strategies, for this run only; they win over the resource's.

        Raises:
            RetryRequested: every failure may pass by itself: an unreachable source, a stream that another runner holds.
            Failure: a person has to do something first, which the description says.
        """
        place = TidegateProject(folder=Path(self.project_dir), profile=self.profile)
        failed: list[TidegateError] = []
        try:
            with place.open() as project:
                runner = Runner(place=place, project=project, tell=context.log.info, local=self.local)
                step = _Step(runner=runner, context=context, options={**self.options, **(options or {})})
                yield from step.events(self.parallel, failed)
        except TidegateError as error:
            failed.append(error)
        if failed:
            raise self._raised(failed)

    def _raised(self, failed: Sequence[TidegateError]) -> Failure | RetryRequested:
        for_people = [error for error in failed if not may_pass(error)]
        first = (for_people or list(failed))[0]
        text = "\n".join(f"{error.code}: {error.message}\n  hint: {error.hint}" for error in failed)
        if not for_people:
            raise RetryRequested(max_retries=self.retries, seconds_to_wait=self.retry_after) from first
        raise Failure(
            description=text,
            metadata={
                "tidegate/error": first.code,
                "tidegate/hint": first.hint,
                "tidegate/exit_code": first.exit_code,
            },
            allow_retries=False,
        ) from first


class _Step:
    """One step: the streams that it has to load, or only to verify."""

    def __init__(self, *, runner: Runner, context: AssetExecutionContext, options: dict[str, Any]) -> None:
        self.runner = runner
        self.context = context
        self.options = options

    def events(self, parallel: int, failed: list[TidegateError]) -> Iterator[AssetEvent]:
        """The events of every stream; `failed` takes their errors."""
        assets = list(selected(self.context))
        refuse_changed(self.runner.project, assets)
        window, loaded = window_of(self.context), [each for each in assets if each.output]
        if window is None and parallel > 1 and len(loaded) > 1:
            names = [each.stream for each in loaded]
            report = self.runner.run(*names, options=self.options, parallel=parallel)
            ready = {each["stream"]: each for each in report["streams"]}
        else:
            ready = {}
        for asset in assets:
            try:
                if asset.output is None:
                    yield from self._compare(asset)
                elif window is not None:
                    yield from self._window(asset, window)
                else:
                    outcome = ready.get(asset.stream) or self._run(asset.stream)
                    yield from self._report(outcome, asset)
            except TidegateError as error:
                failed.append(error)

    def _run(self, name: str) -> Document:
        found: Document = self.runner.run(name, options=self.options)["streams"][0]
        return found

    def _report(self, outcome: Document, asset: StreamAsset) -> Iterator[AssetEvent]:
        yield from events.of_run(outcome, asset, self._view(asset.stream))
        _refuse_failure(outcome, asset)

    def _window(self, asset: StreamAsset, window: Window) -> Iterator[AssetEvent]:
        outcome = backfill = None
        for document in load_window(self.runner, asset.stream, window, self.options):
            if "chunks" in document:
                backfill = document
                continue
            outcome = document
            if outcome["error"]:
                yield from events.of_run(outcome, asset, None)
            _refuse_failure(outcome, asset)
        yield from events.of_backfill(backfill, outcome, asset)

    def _compare(self, asset: StreamAsset) -> Iterator[AssetEvent]:
        """Checks that are run without their asset: verification can be, rules are about the rows of a load."""
        if asset.rules:
            text = "%s: %s judge the rows of a load; materialize the asset to run them"
            self.context.log.warning(text, asset.stream, ", ".join(asset.rules))
        if asset.verified:
            found = self.runner.verify(asset.stream)
            if found["error"]:
                error = found["error"]
                raise error_of(error["code"], error["message"], error["hint"])
            yield from events.of_comparison(found, asset)

    def _view(self, name: str) -> TableView | None:
        try:
            return self.runner.project.show(name)
        except TidegateError as error:
            self.context.log.warning("%s: the table cannot be described: %s", name, error.message)
            return None


def _refuse_failure(outcome: Document, asset: StreamAsset) -> None:
    """Raises what a run has failed with, also if it claims to have loaded rows that it was asked to verify."""
    error = outcome["error"]
    if error is not None:
        raise error_of(error["code"], error["message"], error["hint"])
    if outcome["outcome"] == "loaded" and not events.is_loaded(outcome, asset.level):
        raise VerifyFailed(
            f"stream {asset.stream!r}: the load was not verified", hint=f"`tidegate verify {asset.stream}`"
        )
    if outcome["outcome"] not in ("loaded", "unchanged"):
        raise InternalError(f"stream {asset.stream!r} ended as {outcome['outcome']} without an error")


def selected(context: AssetExecutionContext) -> Iterator[StreamAsset]:
    """The assets of a step that are to be loaded, and those of which only checks are to be run."""
    definition, wanted = context.assets_def, context.selected_asset_check_keys
    for key, spec in definition.specs_by_key.items():
        found = [each for each in definition.check_specs if each.asset_key == key and each.key in wanted]
        if key not in context.selected_asset_keys and not found:
            continue
        rules = {each.metadata[checks.RULE]: each.name for each in found if checks.RULE in each.metadata}
        yield StreamAsset(
            key=key,
            stream=_text(spec.metadata, STREAM, key),
            uid=_text(spec.metadata, UID, key),
            output=definition.get_output_name_for_asset_key(key) if key in context.selected_asset_keys else None,
            level=VerifyLevel(_text(spec.metadata, "tidegate/verify", key)),
            rules=rules,
            verified=any(checks.LEVEL in each.metadata for each in found),
        )


def refuse_changed(project: Project, assets: Sequence[StreamAsset]) -> None:
    """Refuses streams that are not those that the definitions were made of: their history would become another's.

    Raises:
        ConfigError: a stream was renamed, has another table, or is gone.
    """
    known = {each.name: each.uid for each in project.streams()}
    for asset in assets:
        if known.get(asset.stream) != asset.uid:
            what = "is not in the project" if asset.stream not in known else "has another table or `uid:` now"
            raise ConfigError(
                f"stream {asset.stream!r} of asset {asset.key.to_user_string()!r} {what}",
                hint="Reload the code location, so that its assets are those of the project.",
            )


def _text(metadata: Mapping[str, Any], name: str, key: AssetKey) -> str:
    value = metadata.get(name)
    if value is None:
        raise ConfigError(
            f"asset {key.to_user_string()!r} has no metadata {name!r}, so that its stream is unknown",
            hint="Keep the metadata that `TidegateTranslator.get_metadata` returns.",
        )
    return str(getattr(value, "value", value))
