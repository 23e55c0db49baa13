"""A load as a program: its options are a loader's arguments, and nothing is loaded by accident."""

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

import incremental_loading
from tidegate import loaders
from tidegate.errors import ColumnMissing, ConfigError
from tidegate.loaders.cursors import column_of_changes
from tidegate.loaders.job import SUBMITTED, main, parser

PATHS = ["--source-path", "s3a://in", "--target-path", "s3a://out", "--watermark-path", "s3a://marks"]


def test_the_module_that_scripts_import_has_the_loaders():
    assert incremental_loading.__all__ == loaders.__all__
    assert all(getattr(incremental_loading, name) is getattr(loaders, name) for name in loaders.__all__)


def test_options_are_the_arguments_of_the_loader():
    found = parser().parse_args(
        ["timestamp", *PATHS, "--lookback", "1h", "--primary-key", "region", "id", "--max-rows", "10"]
    )
    assert vars(found) == {
        "pattern": "timestamp",
        "source_path": "s3a://in",
        "target_path": "s3a://out",
        "watermark_path": "s3a://marks",
        "lookback": timedelta(hours=1),
        "primary_key": ["region", "id"],
        "max_rows": 10,
    }
    assert parser().parse_args(["sequence", *PATHS, "--sequence-column", "n", "--lookback", "100"]).lookback == 100


def test_a_loader_of_delta_tables_is_a_job_with_a_target():
    words = ["delta-cdf", "--source", "dbfs:/in", "--metadata", "dbfs:/loads", "--primary-key", "id"]
    assert parser().parse_args([*words, "--target", "dbfs:/out"]).primary_key == ["id"]
    with pytest.raises(SystemExit):
        parser().parse_args(words)  # nobody would confirm what it reads


EVERY_OPTION = """
import incremental_loading
from tidegate.loaders import job

values = {"lookback": "1h", "remember_deleted": "30d", "max_rows": "10"}
subcommands = next(action for action in job.parser()._actions if action.dest == "pattern").choices
for pattern, command in subcommands.items():
    words = [pattern]
    for action in command._actions[1:]:
        known = "100" if action.dest == "lookback" and pattern != "timestamp" else values.get(action.dest, "x")
        words += [action.option_strings[0], known]
    assert len(vars(job.parser().parse_args(words))) == len(command._actions), pattern
    print(pattern)
"""


def test_every_option_is_understood_with_nothing_but_the_standard_library_and_pyspark(tmp_path):
    """A cluster has PySpark, and none of what Tidegate's projects need."""
    src = Path(incremental_loading.__file__).parent
    done = subprocess.run(
        [sys.executable, "-S", "-c", EVERY_OPTION],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={"PYTHONPATH": str(src)},
        cwd=tmp_path,
    )
    assert done.stdout.split() == ["timestamp", "sequence", "cdc", "diff", "delta-cdf", "delta-timestamp"]


@pytest.mark.parametrize(
    "words",
    [
        ["sequence", *PATHS],  # no column
        ["timestamp", *PATHS, "--lookback", "1"],  # no unit
        ["timestamp", *PATHS, "--look", "1h"],  # half a word
        ["diff", *PATHS, "--primary-key", "id"],  # it has no watermarks
        ["other"],
    ],
)
def test_what_no_loader_takes_is_refused(words, capsys):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert "error" in capsys.readouterr().err


@pytest.mark.parametrize("variable", SUBMITTED)
def test_a_job_without_arguments_does_not_end_well(variable, monkeypatch, capsys):
    """A self-test in its place would look like a load."""
    monkeypatch.setenv(variable, "1")
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 2
    assert "required: pattern" in capsys.readouterr().err


def test_importing_it_imports_no_pyspark():
    code = "import sys, incremental_loading; print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=240)
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    "name", ["modified_date", "updated_at", "last_modified", "LastUpdated", "last_update_ts", "changed_on", "updatedat"]
)
def test_a_name_that_tells_of_changes_is_found(name):
    assert column_of_changes({"id": "bigint", "created_at": "timestamp", name: "timestamp", "change": "string"}) == name


@pytest.mark.parametrize(
    "names", [["id", "created_date"], ["modified_date", "updated_at"], ["updated", "change"], ["birth_date"]]
)
def test_a_column_is_not_guessed(names):
    with pytest.raises(ColumnMissing, match="when a row was changed") as refused:
        column_of_changes(dict.fromkeys(names, "timestamp"))
    assert "timestamp_column" in refused.value.hint


def test_a_text_is_not_taken_for_a_time_by_its_name():
    with pytest.raises(ConfigError, match="may not sort"):
        column_of_changes({"modified_date": "string"})
