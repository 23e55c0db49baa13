"""The platform of `examples/parking` in Dagster."""

import re
import runpy
import shutil

import dagster as dg

from support.parking import PARKING, parking_project


def test_dagster_builds_marts_after_what_they_read(tmp_path, monkeypatch):
    parking_project(tmp_path, monkeypatch).close()
    defs = runpy.run_path(shutil.copy(PARKING / "definitions.py", tmp_path))["defs"]
    dg.Definitions.validate_loadable(defs)
    graph = defs.resolve_asset_graph()
    marts = {key.to_user_string() for key in graph.get_all_asset_keys() if graph.get(key).group_name == "marts"}
    assert marts == {path.stem for path in (PARKING / "dbt/models").glob("*.sql")}
    for name in marts:
        model = (PARKING / f"dbt/models/{name}.sql").read_text(encoding="utf-8")
        reads = set(re.findall(r"(?:source\('\w+', |ref\()'(\w+)'\)", model))
        assert {key.to_user_string() for key in graph.get(dg.AssetKey(name)).parent_keys} == reads
