"""The project of the example is valid, and its parts name each other rightly."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tidegate import Project

ROOT = Path(__file__).parents[3]
PARKING = ROOT / "examples/parking"
VARIABLES = {
    "REGISTRY_URL": "sqlite:///registry.db",
    "LAKE_URL": "postgresql://lake@127.0.0.1:9/lake",
    "REST_URL": "http://127.0.0.1:9",
    "S3_ENDPOINT": "http://127.0.0.1:9",
    "OFFICE_URL": "postgresql://office@127.0.0.1:9/office",
    "TRINO_URL": "trino://tidegate@127.0.0.1:9/lake",
    "CITY_URL": "http://127.0.0.1:9",
}


@pytest.fixture
def project(tmp_path, monkeypatch):
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    text = (PARKING / "tidegate.yaml").read_text(encoding="utf-8")
    (tmp_path / "tidegate.yaml").write_text(text, encoding="utf-8")
    with Project.load(tmp_path) as project:
        yield project


def test_the_project_is_valid(project):
    for each in project.check():
        assert each.problems == (), each.name


def test_models_read_tables_that_the_project_loads(project):
    known = {each.target.parts[1:] for each in project.streams()}
    models = [path.read_text(encoding="utf-8") for path in (PARKING / "dbt/models").glob("*.sql")]
    assert {found for text in models for found in re.findall(r"source\('(\w+)', '(\w+)'\)", text)} <= known
    assert all("config(" in text for text in models)


def test_trino_has_a_catalog_for_each_lake_and_one_for_the_marts(project):
    catalogs = {path.stem for path in (PARKING / "trino").glob("*.properties")}
    profile = yaml.safe_load((PARKING / "dbt/profiles.yml").read_text(encoding="utf-8"))
    assert catalogs == {*project.config.lakes, profile["parking"]["outputs"]["dev"]["database"]}


def test_dagster_builds_marts_after_what_they_read(project, monkeypatch):
    dg = pytest.importorskip("dagster")
    scope = {"__file__": str(Path(project.config.folder) / "definitions.py"), "__name__": "parking_definitions"}
    exec(
        compile((PARKING / "definitions.py").read_text(encoding="utf-8"), "definitions.py", "exec", dont_inherit=True),
        scope,
    )
    dg.Definitions.validate_loadable(scope["defs"])
    graph = scope["defs"].resolve_asset_graph()
    marts = {key.to_user_string() for key in graph.get_all_asset_keys() if graph.get(key).group_name == "marts"}
    assert marts == {path.stem for path in (PARKING / "dbt/models").glob("*.sql")}
    for name in marts:
        model = (PARKING / f"dbt/models/{name}.sql").read_text(encoding="utf-8")
        reads = set(re.findall(r"(?:source\('\w+', |ref\()'(\w+)'\)", model))
        assert {key.to_user_string() for key in graph.get(dg.AssetKey(name)).parent_keys} == reads
