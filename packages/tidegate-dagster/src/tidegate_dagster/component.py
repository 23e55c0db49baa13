"""The component: a project in a code location by a few lines of YAML, and what `dg scaffold defs` writes."""

# Dagster reads the annotations of a component while the class is made, so they are no texts here.

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any

from dagster import (
    AssetExecutionContext,
    AssetSpec,
    Component,
    ComponentLoadContext,
    Definitions,
    Model,
    Resolvable,
    Resolver,
    Scaffolder,
    ScaffoldRequest,
    ScheduleDefinition,
    SensorDefinition,
    scaffold_with,
)
from dagster.components.component_scaffolding import scaffold_component
from dagster.components.utils.translation import TranslationFn, TranslationFnResolver
from pydantic import Field

from tidegate_dagster.assets import tidegate_assets
from tidegate_dagster.automation import build_tidegate_schedules
from tidegate_dagster.events import AssetEvent
from tidegate_dagster.project import StreamProps, TidegateProject
from tidegate_dagster.resource import TidegateResource
from tidegate_dagster.sensors import build_arrival_sensor, build_incident_sensor
from tidegate_dagster.translator import TidegateTranslator


class ScaffoldParams(Model):
    """What `dg scaffold defs` takes."""

    project: str = Field(default="../..", description="The project folder, relative to the component's.")
    profile: str | None = Field(default=None, description="The profile to use.")


class TidegateProjectScaffolder(Scaffolder[ScaffoldParams]):
    """Writes `defs.yaml`."""

    @classmethod
    def get_scaffold_params(cls) -> type[ScaffoldParams]:
        """The parameters of the command."""
        return ScaffoldParams

    def scaffold(self, request: ScaffoldRequest[ScaffoldParams]) -> None:
        """Writes the component's file."""
        given = request.params.model_dump(exclude_none=True)
        scaffold_component(request, {**given, "schedules": True, "arrivals": False, "incidents": False})


@scaffold_with(TidegateProjectScaffolder)
@dataclass(kw_only=True)
class TidegateProjectComponent(Component, Resolvable):
    """The streams of a Tidegate project as assets, with checks, schedules and sensors."""

    project: Annotated[
        str, Resolver.default(description="The project folder; a relative path begins at the component's folder.")
    ]
    profile: Annotated[str | None, Resolver.default(description="The profile to use, such as prod.")] = None
    select: Annotated[
        list[str], Resolver.default(description="Which streams, as `--select` takes them; all without any.")
    ] = field(default_factory=list)
    exclude: Annotated[list[str], Resolver.default(description="Which streams not, as `--exclude` takes them.")] = (
        field(default_factory=list)
    )
    translation: Annotated[
        TranslationFn[StreamProps] | None,
        TranslationFnResolver[StreamProps](lambda props: {"props": props, "stream": props.stream}),
    ] = None
    name: Annotated[str | None, Resolver.default(description="Of the step, and before the names of schedules.")] = None
    schedules: Annotated[bool, Resolver.default(description="Schedules from the `schedule:` of the streams.")] = True
    arrivals: Annotated[bool, Resolver.default(description="A sensor for what arrives in files and change logs.")] = (
        False
    )
    incidents: Annotated[bool, Resolver.default(description="A sensor for incidents, as `alerts:` defines them.")] = (
        False
    )
    running: Annotated[bool, Resolver.default(description="Whether schedules and sensors are on from the start.")] = (
        False
    )
    freshness: Annotated[bool, Resolver.default(description="Freshness policies from the schedules.")] = False
    parallel: Annotated[int, Resolver.default(description="Streams to load in parallel.")] = 1

    @cached_property
    def translator(self) -> TidegateTranslator:
        """Applies `translation:` to what `get_asset_spec` returns."""
        return _ComponentTranslator(self)

    def get_asset_spec(self, props: StreamProps) -> AssetSpec:
        """The asset of a stream; to be overridden in a subclass."""
        spec = TidegateTranslator(freshness=self.freshness).get_asset_spec(props)
        return self.translation(spec, props) if self.translation else spec

    def execute(self, context: AssetExecutionContext, tidegate: TidegateResource) -> Iterator[AssetEvent]:
        """Loads the selected streams; to be overridden in a subclass."""
        yield from tidegate.run(context)

    def build_defs(self, context: ComponentLoadContext) -> Definitions:
        """The assets with their checks, the schedules and the sensors."""
        place = TidegateProject(
            folder=(context.path / self.project).resolve(),
            profile=self.profile,
            select=tuple(self.select),
            exclude=tuple(self.exclude),
        )
        name = self.name or context.path.name.replace("-", "_")
        resource = TidegateResource(project_dir=str(place.folder), profile=self.profile, parallel=self.parallel)

        @tidegate_assets(project=place, translator=self.translator, name=name)
        def assets(context: AssetExecutionContext) -> Any:
            yield from self.execute(context, resource)

        shared: dict[str, Any] = {"translator": self.translator, "running": self.running}
        made = list(build_tidegate_schedules(place, prefix=name, **shared)) if self.schedules else []
        timed = [each for each in made if isinstance(each, ScheduleDefinition)]
        sensors = [each for each in made if isinstance(each, SensorDefinition)]
        if self.arrivals:
            sensors.append(build_arrival_sensor(place, name=f"{name}_arrivals", **shared))
        if self.incidents:
            sensors.append(build_incident_sensor(place, name=f"{name}_incidents", **shared))
        return Definitions(assets=[assets], schedules=timed, sensors=sensors)


class _ComponentTranslator(TidegateTranslator):
    def __init__(self, component: TidegateProjectComponent) -> None:
        super().__init__(freshness=component.freshness)
        self._component = component

    def get_asset_spec(self, props: StreamProps) -> AssetSpec:
        return self._component.get_asset_spec(props)
