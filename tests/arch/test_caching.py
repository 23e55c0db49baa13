"""Spark's cache is shared by all who use one Spark, so what goes into it, and past it, is decided in one module."""

import re
from pathlib import Path

import tidegate

SOURCE = Path(tidegate.__file__).parent
CACHED = re.compile(r"\.(persist|cache)\(\)|CACHE TABLE")
FILES = re.compile(r"\.read\.(format\(|schema\(|(json|csv|text|parquet|orc)\()")
# Delta and Kafka read versions and offsets, the rest what this load alone has written.
NOT_OVERWRITTEN = {
    "formats/delta/maintenance.py",
    "formats/delta/staging.py",
    "formats/delta/change_feed.py",
    "loaders/differences.py",
    "sources/change_log/spool.py",
    "sources/change_log/topic/log.py",
}


def _those_with(pattern: re.Pattern[str]) -> set[str]:
    return {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if pattern.search(path.read_text())}


def test_rows_are_kept_for_one_load_alone():
    assert _those_with(CACHED) == {"spark/caching.py"}


def test_files_of_others_are_read_past_the_cache():
    assert _those_with(FILES) == NOT_OVERWRITTEN
