"""The assets, checks and events of Dagster, without a load: what would be wrong and look right."""

import doctest
import importlib
import json
import pkgutil
import re
import runpy
import shutil
import sqlite3
from contextlib import closing
from datetime import datetime
from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster.components.testing import create_defs_folder_sandbox

import tidegate_dagster
from support.workspace import Workspace
from tidegate.engine.stream import VerifyLevel
from tidegate.errors import ConfigError, Incompatible, PlanError
from tidegate_dagster import (
    TidegateProject,
    TidegateProjectComponent,
    TidegateResource,
    TidegateTranslator,
    build_arrival_sensor,
    build_incident_sensor,
    build_tidegate_schedules,
    checks,
    events,
    partitions,
    tidegate_assets,
)
from tidegate_dagster.partitions import Window

pytestmark = [  # of Dagster itself
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20"),
    pytest.mark.filterwarnings("ignore::dagster_shared.utils.warnings.BetaWarning"),
]

ROOT = Path(__file__).parents[4]
ORDERS = {
    "source": {"connection": "shop", "table": "orders"},
    "target": "lake.shop.orders",
    "key": ["id"],
    "strategy": {"kind": "watermark", "column": "updated_at", "clock": "database"},
    "write": "merge",
    "checks": [{"not_null": "customer"}, {"expression": "amount >= 0", "on_fail": "quarantine"}],
    "tags": ["nightly", "not a tag!"],
    "owner": "data",
}
NOTES = {
    "source": {"connection": "shop", "table": "notes"},
    "target": "lake.shop.notes",
    "strategy": "full",
    "write": "replace",
    "verify": "none",
}
KEY = dg.AssetKey("orders")


@pytest.fixture
def site(tmp_path):
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop, shop:
        shop.execute(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, customer TEXT, amount INT, updated_at DATETIME)"
        )
        shop.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY NOT NULL)")
    workspace = Workspace(folder=tmp_path)
    write(workspace, orders=ORDERS, notes=NOTES)
    return workspace


def write(workspace, **streams):
    workspace.write(streams, connections={"shop": {"url": f"sqlite:///{workspace.folder / 'shop.db'}"}})


def made(project, **options):
    @tidegate_assets(project=project, **options)
    def shop(context: dg.AssetExecutionContext, tidegate: TidegateResource):
        yield from tidegate.run(context)

    return shop


def outcome(**values):
    counts = dict.fromkeys(events.COUNTS, 0)
    return {
        "outcome": "loaded",
        "strategy": "watermark",
        "write": "append",
        "verified": True,
        "snapshot": "1",
        "position": None,
        "seconds": {},
        "notes": [],
        "checks_failed": [],
        "error": None,
        **counts,
        "rows_read": 3,
        "rows_inserted": 3,
        **values,
    }


def failed_rule(on_fail="stop"):
    return {"rule": "not_null(customer)", "on_fail": on_fail, "columns": ["customer"], "reason": "no value", "rows": 2}


def told(values, *, level=VerifyLevel.MOVED):
    asset = events.StreamAsset(
        key=KEY, stream="orders", uid="1", output="orders", level=level, rules=RULES, verified=level != "none"
    )
    found = list(events.of_run(outcome(**values), asset, None))
    results = {each.check_name: each.passed for each in found if isinstance(each, dg.AssetCheckResult)}
    return [type(each).__name__ for each in found if not isinstance(each, dg.AssetCheckResult)], results


RULES = {"not_null(customer)": "not_null_customer", "unique(id)": "unique_id"}
ERROR = {"code": "check_failed", "message": "m", "hint": "h"}
GOOD = {"not_null_customer": True, "unique_id": True}


@pytest.mark.parametrize(
    ("values", "kinds", "results"),
    [
        ({}, ["MaterializeResult"], {**GOOD, "verified": True}),
        (
            {"outcome": "unchanged", "verified": None, "rows_read": 0, "rows_inserted": 0},
            ["AssetObservation", "Output"],
            {},
        ),
        ({"outcome": "stopped", "error": ERROR, "verified": None}, ["AssetObservation"], {}),
        (
            {"outcome": "stopped", "error": ERROR, "verified": None, "checks_failed": [failed_rule()]},
            ["AssetObservation"],
            {"not_null_customer": False},
        ),
        ({"outcome": "held", "error": {**ERROR, "code": "lease_held"}, "verified": None}, ["AssetObservation"], {}),
        (
            {"outcome": "failed", "error": {**ERROR, "code": "verify_failed"}, "verified": None},
            ["AssetObservation"],
            {"verified": False},
        ),
        (
            {"checks_failed": [failed_rule("warn")]},
            ["MaterializeResult"],
            {**GOOD, "not_null_customer": False, "verified": True},
        ),
        # Rows that were to be verified and were not are not materialized, and nothing is said to be verified.
        ({"verified": None}, ["AssetObservation"], GOOD),
        # The commit that creates an empty table has nothing to compare, and no row that a rule could judge.
        ({"verified": None, "rows_read": 0, "rows_inserted": 0}, ["MaterializeResult"], {}),
        # Some partitions were loaded, others were not.
        ({"outcome": "failed", "error": ERROR}, ["AssetObservation"], {}),
    ],
)
def test_only_what_was_loaded_and_proven_is_materialized(values, kinds, results):
    assert told(values) == (kinds, results)


def test_rows_that_nobody_asked_to_verify_are_materialized_without_a_result():
    assert told({"verified": None}, level=VerifyLevel.NONE) == (["MaterializeResult"], GOOD)


def test_counts_of_a_failed_run_are_not_told_as_zeros():
    asset = events.StreamAsset(
        key=KEY, stream="orders", uid="1", output=None, level=VerifyLevel.MOVED, rules={}, verified=True
    )
    observed = next(iter(events.of_run(outcome(outcome="failed", error=ERROR), asset, None)))
    assert "tidegate/rows_read" not in observed.metadata
    assert observed.metadata["tidegate/error"].value == "check_failed"


def test_two_rules_never_share_a_check(site):
    write(
        site,
        orders={**ORDERS, "checks": [{"expression": "amount > 0"}, {"expression": "amount < 0"}, {"not_null": "id"}]},
    )
    (props,) = TidegateProject.of(site.folder).streams()
    names = checks.names_of(props.stream.policies.checks)
    assert len(set(names.values())) == 3
    assert names["not_null(id)"] == "not_null_id"
    rules = [*props.stream.policies.checks]
    assert checks.names_of(rules[:1])["expression(amount > 0)"] == names["expression(amount > 0)"], "stable"


def test_assets_and_checks_of_a_project(site):
    assets = made(site.folder)
    dg.Definitions.validate_loadable(
        dg.Definitions(assets=[assets], resources={"tidegate": TidegateResource(project_dir=str(site.folder))})
    )
    assert set(assets.keys) == {dg.AssetKey("orders"), dg.AssetKey("notes")}
    by_name = {each.name: each for each in assets.check_specs}
    assert set(by_name) == {"not_null_customer", "verified", next(name for name in by_name if "expression" in name)}
    assert {name: each.blocking for name, each in by_name.items() if name[0] != "e"} == {
        "not_null_customer": True,
        "verified": True,
    }
    assert not next(each for name, each in by_name.items() if "expression" in name).blocking
    assert {each.asset_key for each in assets.check_specs} == {KEY}, "notes are loaded with `verify: none`"
    spec = assets.specs_by_key[KEY]
    assert spec.owners == ["team:data"]
    assert "nightly" in spec.tags
    assert "not a tag!" not in spec.tags
    assert spec.kinds == {"tidegate", "iceberg"}
    assert spec.metadata["dagster/table_name"] == "lake.shop.orders"


def test_a_translator_changes_what_it_overrides(site):
    class Translator(TidegateTranslator):
        def get_asset_key(self, props):
            return dg.AssetKey([*props.stream.target.parts])

        def get_group_name(self, props):
            return props.stream.target.namespace[0]

        def get_automation_condition(self, props):  # noqa: ARG002
            return dg.AutomationCondition.on_cron("@daily")

    assets = made(site.folder, translator=Translator())
    spec = assets.specs_by_key[dg.AssetKey(["lake", "shop", "orders"])]
    assert spec.group_name == "shop"
    assert spec.automation_condition == dg.AutomationCondition.on_cron("@daily")


def test_one_key_for_two_streams_is_refused(site):
    class Translator(TidegateTranslator):
        def get_asset_key(self, props):  # noqa: ARG002
            return dg.AssetKey("same")

    with pytest.raises(ConfigError, match="'orders' and 'notes' have the same asset key 'same'"):
        made(site.folder, translator=Translator())


def test_metadata_that_names_the_stream_is_needed(site):
    class Translator(TidegateTranslator):
        def get_metadata(self, props):  # noqa: ARG002
            return {}

    with pytest.raises(ConfigError, match="no metadata 'tidegate/stream'"):
        made(site.folder, translator=Translator())


def test_a_renamed_stream_gets_another_asset_and_no_load_under_the_old_one(site):
    before = made(site.folder)
    write(site, purchases=ORDERS, notes=NOTES)
    assert dg.AssetKey("purchases") in made(site.folder).keys
    done = _materialize(before, site, selection=[KEY])
    assert "Reload the code location" in _failure(done)
    assert not done.asset_materializations_for_node("shop")
    assert not site.has_table("shop.orders")


def test_a_stream_with_another_table_is_not_loaded_under_the_old_asset(site):
    before = made(site.folder)
    write(site, orders={**ORDERS, "target": "lake.shop.purchases"}, notes=NOTES)
    done = _materialize(before, site, selection=[KEY])
    assert "has another table or `uid:` now" in _failure(done)
    assert not site.has_table("shop.purchases")


def test_a_failure_for_people_is_not_retried_and_one_that_may_pass_is(site):
    with closing(sqlite3.connect(site.folder / "shop.db")) as shop, shop:
        shop.execute("DROP TABLE orders")
    done = _materialize(made(site.folder), site, selection=[KEY])
    assert "hint:" in _failure(done)
    assert [each.event_type_value for each in done.all_events].count("STEP_UP_FOR_RETRY") == 0
    (observed,) = (each for each in done.all_events if each.event_type_value == "ASSET_OBSERVATION")
    assert observed.asset_key == KEY
    assert not [each for each in done.all_events if each.event_type_value == "ASSET_CHECK_EVALUATION"]


def test_a_stream_that_another_runner_holds_is_tried_again(site):
    assets = made(site.folder)
    with site.project() as project:
        (stream,) = project.streams("orders")
        project.registry.register(uid=stream.uid, name="orders", source="s", target="t")
        with project.registry.lease(stream.uid):
            done = _materialize(assets, site, selection=[KEY], retries=1)
    kinds = [each.event_type_value for each in done.all_events]
    assert kinds.count("STEP_UP_FOR_RETRY") == 1
    assert "ASSET_MATERIALIZATION" not in kinds
    assert not done.success


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        (dg.StaticPartitionsDefinition(["a"]), "are no ranges of a cursor"),
        (dg.DailyPartitionsDefinition("2025-01-01", timezone="Europe/Berlin"), "time zone Europe/Berlin"),
    ],
)
def test_partitions_that_are_no_ranges_are_refused(site, definition, message):
    place = TidegateProject(folder=site.folder, select=("orders",))
    with pytest.raises(Incompatible, match=message):
        made(place, partitions_def=definition)


def test_streams_whose_ranges_cannot_be_loaded_again_have_no_partitions(site):
    with pytest.raises(Incompatible, match="stream 'notes' cannot be partitioned"):
        made(site.folder, partitions_def=dg.DailyPartitionsDefinition("2025-01-01"))


def test_a_backfill_of_partitions_is_one_run(site):
    place = TidegateProject(folder=site.folder, select=("orders",))
    assets = made(place, partitions_def=dg.DailyPartitionsDefinition("2025-01-01"))
    assert assets.backfill_policy == dg.BackfillPolicy.single_run()


def test_a_partition_that_is_not_over_is_not_complete():
    nine = datetime.fromisoformat("2025-01-01 09:00")
    window = Window(begin=datetime.fromisoformat("2025-01-01"), end=datetime.fromisoformat("2025-01-02"))
    with pytest.raises(PlanError, match="not complete: the source was read up to 2025-01-01 12:00"):
        partitions._need_end("orders", window, nine, "2025-01-01 12:00:00")
    partitions._need_end("orders", window, nine, "2025-01-02 00:00:00")
    with pytest.raises(PlanError, match="read up to None"):
        partitions._need_end("orders", window, None, None)


def test_every_schedule_is_one_of_dagster(site):
    write(
        site,
        orders={**ORDERS, "schedule": {"every": "5m"}},
        again={**ORDERS, "target": "lake.shop.again", "schedule": {"every": "5m"}},
        odd={**NOTES, "target": "lake.shop.odd", "schedule": {"every": "7m"}},
        nightly={**NOTES, "target": "lake.shop.nightly", "schedule": {"cron": "0 4 * * *"}},
        never={**NOTES, "target": "lake.shop.never"},
    )
    found = {each.name: each for each in build_tidegate_schedules(site.folder)}
    assert set(found) == {"tidegate_cron_xs5_x_x_x_x", "tidegate_every_420s", "tidegate_cron_0_4_x_x_x"}
    assert found["tidegate_cron_0_4_x_x_x"].cron_schedule == "0 4 * * *"
    assert found["tidegate_cron_0_4_x_x_x"].execution_timezone == "UTC"
    assert found["tidegate_every_420s"].minimum_interval_seconds == 420
    five = found["tidegate_cron_xs5_x_x_x_x"]
    with dg.instance_for_test() as instance:
        context = dg.build_schedule_context(instance)
        assert set(five.evaluate_tick(context).run_requests[0].asset_selection) == {KEY, dg.AssetKey("again")}
        with site.project() as project:
            project.attention.pause("again")
        assert five.evaluate_tick(context).run_requests[0].asset_selection == [KEY]
        with site.project() as project:
            project.attention.pause("orders")
        assert five.evaluate_tick(context).skip_message == "the schedule of every stream is paused"


def test_freshness_is_asked_for_and_follows_the_schedule(site):
    write(site, orders={**ORDERS, "schedule": {"every": "5m"}}, notes={**NOTES, "schedule": {"cron": "0 4 * * *"}})
    orders, notes = TidegateProject.of(site.folder).streams()
    assert TidegateTranslator().get_freshness_policy(orders) is None
    fresh = TidegateTranslator(freshness=True)
    policy = fresh.get_freshness_policy(orders)
    assert (policy.warn_window.to_timedelta().seconds, policy.fail_window.to_timedelta().seconds) == (300, 600)
    daily = fresh.get_freshness_policy(notes)
    assert (daily.deadline_cron, daily.lower_bound_delta.days, daily.timezone) == ("0 4 * * *", 1, "UTC")


def test_what_arrives_is_asked_for_once(site):
    events_folder = site.folder / "in"
    events_folder.mkdir()
    files = {"source": {"path": str(events_folder), "format": "csv"}, "target": "lake.shop.files", "strategy": "files"}
    write(site, arriving={**files, "write": "append"}, orders=ORDERS)
    sensor = build_arrival_sensor(site.folder)
    resources = {"tidegate": TidegateResource(project_dir=str(site.folder))}
    defs = dg.Definitions(assets=[made(site.folder)], sensors=[sensor], resources=resources)
    key = dg.AssetKey("arriving")

    def tick(cursor):
        with (
            dg.instance_for_test() as instance,
            dg.build_sensor_context(instance, cursor=cursor, definitions=defs) as context,
        ):
            done = sensor.evaluate_tick(context)
            return [each.asset_selection for each in done.run_requests], done.cursor

    assert tick(None)[0] == []
    (events_folder / "a.csv").write_text("id,name\n1,x\n")
    asked, cursor = tick(None)
    assert asked == [[key]]
    again, later = tick(cursor)
    assert (again, later) == ([], cursor), "the same file is not asked for at every tick"
    (events_folder / "b.csv").write_text("id,name\n2,y\n")
    assert tick(cursor)[0] == [[key]]
    long_ago = json.dumps({name: [digest, 1.0] for name, (digest, _) in json.loads(cursor).items()})
    assert tick(long_ago)[0] == [[key]], "a load that failed is asked for again after an hour"


def test_nothing_arrives_where_no_stream_is_watched(site):
    sensor = build_arrival_sensor(site.folder)
    resources = {"tidegate": TidegateResource(project_dir=str(site.folder))}
    defs = dg.Definitions(assets=[made(site.folder)], sensors=[sensor], resources=resources)
    with dg.instance_for_test() as instance, dg.build_sensor_context(instance, definitions=defs) as context:
        assert sensor.evaluate_tick(context).run_requests == []


def test_an_interval_and_the_cron_that_means_the_same_are_one_schedule(site):
    write(site, orders={**ORDERS, "schedule": {"every": "1h"}}, notes={**NOTES, "schedule": {"cron": "0 * * * *"}})
    (schedule,) = build_tidegate_schedules(site.folder)
    assert schedule.cron_schedule == "0 * * * *"


def test_incidents_are_reported_when_they_begin_and_end(site):
    with closing(sqlite3.connect(site.folder / "shop.db")) as shop, shop:
        shop.execute("DROP TABLE orders")
    site.run("orders")
    sensor = build_incident_sensor(site.folder, job_name="page")

    def tick(cursor):
        with dg.instance_for_test() as instance, dg.build_sensor_context(instance, cursor=cursor) as context:
            done = sensor.evaluate_tick(context)
            seen = [(each.asset_key, each.metadata["tidegate/moment"].value) for each in done.asset_events]
            return seen, [each.tags["tidegate/incident"] for each in done.run_requests], done.cursor

    seen, requests, cursor = tick(None)
    assert (seen, requests) == ([(KEY, "opened")], ["run_failed"])
    assert tick(cursor) == ([], [], cursor)
    with site.project() as project:
        (stream,) = project.streams("orders")
    over = {"rule": "stale", "uid": stream.uid, "stream": "orders", "why": "w", "since": "s"}
    gone = json.dumps({**json.loads(cursor), "x": over})
    assert tick(gone)[0] == [(KEY, "ended")]


def test_the_component_of_the_documents_loads(site):
    document = (ROOT / "docs" / "integrations" / "dagster.md").read_text()
    written = yaml.safe_load(re.search(r"^```yaml defs\n(.*?)^```$", document, re.MULTILINE | re.DOTALL)[1])
    write(site, orders={**ORDERS, "schedule": {"every": "5m"}}, notes=NOTES)
    site.file.write_text(site.file.read_text() + "profiles: {prod: {}}\n")
    written["attributes"] |= {"project": str(site.folder), "exclude": ["notes"]}
    with create_defs_folder_sandbox() as sandbox:
        path = sandbox.scaffold_component(component_cls=TidegateProjectComponent, defs_yaml_contents=written)
        with sandbox.load_component_and_build_defs(defs_path=path) as (component, defs):
            assert isinstance(component, TidegateProjectComponent)
            key = dg.AssetKey(["warehouse", "orders"])
            assert {each.key for each in defs.resolve_all_asset_specs()} == {key}
            assert defs.resolve_assets_def(key).specs_by_key[key].group_name == "shop"
            assert [each.cron_schedule for each in defs.schedules] == ["*/5 * * * *"]
            assert [each.name.rpartition("_")[2] for each in defs.sensors] == ["arrivals", "incidents"]
            assert {each.default_status.value for each in (*defs.schedules, *defs.sensors)} == {"RUNNING"}


def test_a_component_is_scaffolded_with_its_file(site):
    with create_defs_folder_sandbox() as sandbox:
        path = sandbox.scaffold_component(
            component_cls=TidegateProjectComponent, scaffold_params={"project": str(site.folder), "profile": None}
        )
        assert str(site.folder) in (path / "defs.yaml").read_text()
        with sandbox.load_component_and_build_defs(defs_path=path) as (_, defs):
            assert KEY in {each.key for each in defs.resolve_all_asset_specs()}


def _materialize(assets, site, *, selection, retries=0):
    resource = TidegateResource(project_dir=str(site.folder), retries=retries, retry_after=0)
    with dg.DagsterInstance.ephemeral() as instance:
        return dg.materialize(
            [assets], resources={"tidegate": resource}, selection=selection, instance=instance, raise_on_error=False
        )


def _failure(done):
    (failed,) = (each for each in done.all_events if each.event_type_value == "STEP_FAILURE")
    return failed.event_specific_data.user_failure_data.description


def test_the_example_loads(tmp_path):
    folder = shutil.copytree(
        ROOT / "examples" / "dagster_project",
        tmp_path / "example",
        ignore=shutil.ignore_patterns(".tidegate", "warehouse", "shop.db"),
    )
    defs = runpy.run_path(str(folder / "definitions.py"))["defs"]
    dg.Definitions.validate_loadable(defs)
    assert {each.key.to_user_string() for each in defs.resolve_all_asset_specs()} == {"orders", "customers", "revenue"}
    with Workspace(folder=folder).project() as project:
        assert [each.outcome for each in project.plan()] == ["changed", "changed"]


def test_the_examples_of_docstrings_are_right():
    modules = [f"tidegate_dagster.{module.name}" for module in pkgutil.iter_modules(tidegate_dagster.__path__)]
    results = [doctest.testmod(importlib.import_module(name)) for name in modules]
    assert sum(each.attempted for each in results) > 0
    assert [name for name, each in zip(modules, results, strict=True) if each.failed] == []
