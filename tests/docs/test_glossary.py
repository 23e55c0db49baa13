"""Whoever comes from another tool finds each of its words in the glossary, and nobody is sent to another's package."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
TERMS = [
    "dmva_checksums",
    "checksum_id",
    "object_id",
    "extract_group_id",
    "checksum_method",
    "source_filter",
    "target_filter",
    "partition_checksum",
    "partition_row_count",
    "created_ts",
    "updated_ts",
    "dmva_object_info",
    "object_name",
    "schema_name",
    "system_name",
    "dmva_tasks",
    "dmva_ingested_all",
    "task_id",
    "task_type",
    "status_cd",
    "start_ts",
    "finish_ts",
    "source_object_id",
    "target_object_id",
    "result_payload",
    "rows_affected",
    "load_partition",
    "checksum_partition",
    "dmva_status_change_log",
    "old_status",
    "new_status",
    "changed_ts",
    "changed_by",
    "dmva_status_results_total",
    "dmva_status_results_detail",
    "source_schema_name",
    "source_object_name",
    "dmva_tasks_active",
    "dmva_task_stats_by_date",
    "column_name",
    "type",
    "modulus",
    "period",
    "lookback",
    "HASH_AGG",
    "by_integer",
    "by_date",
    "by_substr",
    "LAST_7_DAYS",
    "dmva_get_checksum_tasks",
    "last_watermark",
    "timestamp_col",
    "version_col",
    "key_columns",
    "merge_keys",
    "pipeline_name",
    "last_value",
    "TimestampBasedLoader",
    "SequenceBasedLoader",
    "CDCLoader",
    "DeltaDiffLoader",
    "IncrementalLoader",
    "load_incremental",
    "process_cdc",
    "detect_changes",
    "source_path",
    "cdc_source_path",
    "target_path",
    "watermark_path",
    "snapshot_path",
    "timestamp_column",
    "sequence_column",
    "primary_key",
    "table_name",
    "watermark_value",
    "last_updated",
    "operation",
    "sequence_num",
    "inserts",
    "updates",
    "deletes",
    "incremental_df",
    "expected_max",
    "incremental_loading",
    "smart_load_strategy",
    "time_since_last_full_load",
    "has_significant_changes",
    "get_changed_partitions",
    "changed_partitions",
    "pipeline_run_id",
    "ingestion_timestamp",
    "change_detection_time",
    "changed_records_percent",
    "new_partitions_created",
    "compaction_savings",
    "DeltaCDFLoader",
    "DeltaTimestampLoader",
    "start_commit_ver",
    "end_commit_ver",
    "is_processed",
    "is_stale",
    "last_read_timestamp",
]
SCENARIOS = (
    "Case 1: Create Fresh Delta Transaction",
    "Case 2: Delta Load Without Changes",
    "Case 3: Merge with Deduplication",
    "Delete Operations",
    "Case 1: Create Fresh Timestamp Transaction",
    "Case 2: Timestamp Load Without Changes",
)
# A command that would take `tidegate` from an index; `./tidegate`, a file and `tidegate[demo] @ git+…` do not.
FROM_AN_INDEX = re.compile(
    r"\b(?:pip|pipx|uvx?)\b[^\n`|]*?[ '\"]tidegate(?:\[[\w,{}]+\])?(?:[=<>~!]=?[\w.]+)?['\"]?(?=[\s`]|$)(?! @)"
)


def cells():
    """The first cells of the tables of other tools, as the words in them."""
    other = GLOSSARY[GLOSSARY.index("## From other tools") :]
    rows = [line.split("|")[1] for line in other.splitlines() if line.startswith("|")]
    return set(re.findall(r"\w+", " ".join([*rows, other.partition("### PySpark")[2][:200]])))


@pytest.mark.parametrize("term", TERMS)
def test_a_term_of_another_tool_is_mapped(term):
    assert term in cells()


def test_the_scenarios_are_there_by_name():
    page = (ROOT / "docs" / "delta-scenarios.md").read_text(encoding="utf-8")
    assert re.findall(r"^### (.+)$", page, re.MULTILINE) == list(SCENARIOS)


def test_nothing_tells_to_install_the_name_from_an_index():
    files = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/**/*.py"), *ROOT.glob("examples/**/*.py")]
    found = {file.name: FROM_AN_INDEX.findall(file.read_text(encoding="utf-8")) for file in files}
    assert {name: commands for name, commands in found.items() if commands} == {}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("pip install tidegate\n", True),
        ("Install it: `pip install 'tidegate[kafka]'`", True),
        ("uv tool install tidegate==0.1.0\n", True),
        ("uvx tidegate demo\n", True),
        ("pip install ./tidegate\n", False),
        ("uv tool install './tidegate[demo]'\n", False),
        ('pip install "tidegate[demo] @ git+$REPOSITORY"\n', False),
        ("pip install ./tidegate-0.1.0-py3-none-any.whl\n", False),
        ("uv tool upgrade x; tidegate run\n", True),
    ],
)
def test_such_a_command_would_be_noticed(text, told):
    assert bool(FROM_AN_INDEX.search(text)) is told
