"""`make platform`: the platform of `examples/parking` from its first server to its last alert, then all of it ends.

Starts every server on a free port of the loopback, in a folder of its own that is removed at the end. With `KEEP=1`
everything stays up after the last step, until Ctrl-C.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import sys
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import servers
import steps
from dagster import DagsterInstance
from telling import StepFailed, Teller

from support.dbt import environment as dbt_environment
from support.lake_servers import free_port

ROOT = Path(__file__).parents[2]
LOGS = ROOT / "platform-logs"


@dataclass(kw_only=True)
class Platform:
    """Everything that runs."""

    folder: Path
    teller: Teller
    api: Any
    receiver: Any
    postgres: Any
    trino: Any
    dagster: DagsterInstance
    prometheus: str | None
    ui: str


def main() -> int:
    """Runs the steps; the exit code."""
    for number in (signal.SIGINT, signal.SIGTERM):  # `kill` ends it as Ctrl-C does
        signal.signal(number, signal.default_int_handler)
    folder = Path(tempfile.mkdtemp(prefix="tidegate-platform-")) / "parking"
    teller = Teller(folder=folder)
    code = 0
    with contextlib.ExitStack() as stack:
        try:
            platform = start(stack, folder, teller)
            for step in steps.ALL:
                step(platform)
            teller.step("Everything that was shown was done by real servers, which end now")
            if os.environ.get("KEEP"):
                teller.say(f"Dagster: {platform.ui}", f"The project: {folder}", "Ctrl-C ends everything.")
                signal.pause()
        except KeyboardInterrupt:
            teller.say("interrupted: ending every server")
        except (StepFailed, RuntimeError, OSError) as error:
            print(f"\nfailed: {error}", file=sys.stderr)
            code = 1
            shutil.copytree(folder / "servers", LOGS, dirs_exist_ok=True)
            print(f"what the servers printed is in {LOGS}", file=sys.stderr)
        for number in (signal.SIGINT, signal.SIGTERM):  # what was started is ended, however impatient somebody is
            signal.signal(number, signal.SIG_IGN)
    shutil.rmtree(folder.parent, ignore_errors=True)
    print("ended: every server; the folder is removed", flush=True)
    return code


def start(stack: contextlib.ExitStack, folder: Path, teller: Teller) -> Platform:
    """Starts every server; those of the sources and the lake before those that use them."""
    teller.step("Start the servers", "each on a free port of 127.0.0.1")
    copy_project(folder)
    environ = os.environ
    environ |= {"AWS_ACCESS_KEY_ID": "parking", "AWS_SECRET_ACCESS_KEY": secrets.token_hex(16)}
    environ |= {"AWS_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true", "TRINO_CACHE": str(folder / "cache")}
    api, receiver = servers.start_api(stack), servers.start_receiver(stack)
    environ |= {"CITY_URL": api.url, "ALERTS_URL": f"json://127.0.0.1:{receiver.server_port}/operators"}
    teller.say(f"city API      {api.url}/garages")
    postgres = servers.start_postgres(stack)
    environ |= {f"{name.upper()}_URL": postgres.url(name) for name in servers.DATABASES}
    environ["LAKE_JDBC_URL"] = f"jdbc:postgresql://127.0.0.1:{postgres.port}/lake"
    teller.say(f"PostgreSQL    127.0.0.1:{postgres.port}: the lake's catalog, the registry, the office's tickets")
    environ["S3_ENDPOINT"] = servers.start_s3(stack, folder)
    teller.say(f"S3            {environ['S3_ENDPOINT']}: buckets parking and sensors")
    environ["REST_URL"] = servers.start_rest_catalog(stack, folder, environ["S3_ENDPOINT"])
    teller.say(f"REST catalog  {environ['REST_URL']}")
    trino = servers.start_trino(stack, folder / "trino")
    environ["TRINO_URL"] = f"trino://tidegate@127.0.0.1:{trino.port}/lake"
    environ |= {"TRINO_HOST": "127.0.0.1", "TRINO_PORT": str(trino.port), "DBT": str(dbt_environment() / "bin/dbt")}
    teller.say(f"Trino         http://127.0.0.1:{trino.port}: catalogs lake, city, marts")
    web = servers.start_service(stack, folder)
    teller.say(f"tidegate      http://127.0.0.1:{web}: warm Spark, dashboard, /metrics")
    prometheus = servers.start_prometheus(stack, folder, web)
    teller.say(f"Prometheus    {prometheus or 'is not installed: apt-get install prometheus'}")
    ui = free_port()
    servers.start_dagster(stack, folder, ui)
    teller.say(f"Dagster       http://127.0.0.1:{ui}")
    instance = stack.enter_context(DagsterInstance.get())
    return Platform(
        folder=folder,
        teller=teller,
        api=api,
        receiver=receiver,
        postgres=postgres,
        trino=trino,
        dagster=instance,
        prometheus=prometheus,
        ui=f"http://127.0.0.1:{ui}",
    )


def copy_project(folder: Path) -> None:
    """The example in the folder, and a `PATH` that has its programs and no settings of another project."""
    shutil.copytree(ROOT / "examples/parking", folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "docs/prometheus/rules.yml", folder)
    (folder / "dagster").mkdir()
    shutil.move(folder / "dagster.yaml", folder / "dagster")
    (folder / "cache" / "lake").mkdir(parents=True)
    os.environ |= {"DAGSTER_HOME": str(folder / "dagster"), "DAGSTER_DISABLE_TELEMETRY": "1", "NO_COLOR": "1"}
    os.environ |= {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "PYTHONWARNINGS": "ignore"}
    os.environ["DBT_SEND_ANONYMOUS_USAGE_STATS"] = "false"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
