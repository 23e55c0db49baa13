"""The project of the example is valid, and its parts name each other rightly."""

from __future__ import annotations

import re

import pytest
import yaml

from support.parking import PARKING, parking_project


@pytest.fixture
def project(tmp_path, monkeypatch):
    with parking_project(tmp_path, monkeypatch) as project:
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
