"""A load as a program: the file that `spark-submit` and Airflow start, with a loader's arguments as options.

A job without arguments is refused where Spark was started for it: a self-test that ends well would look like a load.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from tidegate.core.durations import duration
from tidegate.core.visible import visible
from tidegate.errors import TidegateError
from tidegate.loaders._applying import LoadResult
from tidegate.loaders.cdc import CDCLoader
from tidegate.loaders.cursors import SequenceBasedLoader, TimestampBasedLoader
from tidegate.loaders.delta_tables import DeltaCDFLoader, DeltaTimestampLoader
from tidegate.loaders.differences import DeltaDiffLoader

PATTERNS: Mapping[str, tuple[type[Any], str]] = {
    "timestamp": (TimestampBasedLoader, "load_incremental"),
    "sequence": (SequenceBasedLoader, "load_incremental"),
    "cdc": (CDCLoader, "process_cdc"),
    "diff": (DeltaDiffLoader, "detect_changes"),
    "delta-cdf": (DeltaCDFLoader, "load"),
    "delta-timestamp": (DeltaTimestampLoader, "load"),
}
SUBMITTED = ("PYSPARK_GATEWAY_PORT", "DATABRICKS_RUNTIME_VERSION")
"""Variables that are set where Spark was started before this program."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Makes the load that the arguments describe, and prints its result as one line of JSON; 0 when it is made."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if not words and not any(name in os.environ for name in SUBMITTED):
        from tidegate.loaders.__main__ import main as self_test  # noqa: PLC0415 - only without arguments

        return self_test()
    values = vars(parser().parse_args(words))
    loader, method = PATTERNS[values.pop("pattern")]
    made = {name: values.pop(name) for name in _parameters(loader.__init__) if name in values}
    from pyspark.sql import SparkSession  # noqa: PLC0415 - importing pyspark takes a second

    try:
        spark = SparkSession.getActiveSession() or SparkSession.builder.appName("incremental_loading").getOrCreate()
        found = getattr(loader(spark, **made), method)(**values)
        sys.stdout.write(json.dumps(_details(found)) + "\n")
    except TidegateError as error:
        sys.stderr.write(visible(f"error[{error.code}]: {error.message}\n  hint: {error.hint}\n"))
        return error.exit_code
    return 0


def parser() -> argparse.ArgumentParser:
    """An option for each argument of the loaders, by pattern; an option that is not given keeps its default."""
    words = argparse.ArgumentParser(
        prog="incremental_loading.py", description="One load by a loader class.", allow_abbrev=False
    )
    patterns = words.add_subparsers(dest="pattern", required=True)
    for pattern, (loader, method) in PATTERNS.items():
        command = patterns.add_parser(
            pattern, help=f"{loader.__name__}.{method}", argument_default=argparse.SUPPRESS, allow_abbrev=False
        )
        for function in (getattr(loader, method), loader.__init__):
            for name, parameter in _parameters(function).items():
                kind = _KINDS.get((pattern, name)) or _KINDS.get(("", name), {"type": str})
                required = parameter.default is inspect.Parameter.empty or name == "target"
                command.add_argument(f"--{name.replace('_', '-')}", dest=name, required=required, **kind)
    return words


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """What people tell a loader, without what only Python can give."""
    known = inspect.signature(function).parameters
    return {name: parameter for name, parameter in known.items() if name not in ("self", "spark", "read_options")}


def _duration(text: str) -> timedelta:
    try:
        return duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


_KINDS: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("timestamp", "lookback"): {"type": _duration},
    ("", "lookback"): {"type": int},
    ("", "remember_deleted"): {"type": _duration},
    ("", "max_rows"): {"type": int},
    **{("", name): {"nargs": "+"} for name in ("primary_key", "not_null", "partition_by")},
}


def _details(found: LoadResult | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(found, LoadResult):
        names = ("table_name", "records", "deleted", "old_watermark", "new_watermark", "gaps")
        return {**{name: getattr(found, name) for name in names}, "seconds": found.duration.total_seconds()}
    return {kind: rows.count() for kind, rows in found.items()}
