"""What Airflow lists of this package under Providers."""

from __future__ import annotations

from importlib import metadata
from typing import Any

PACKAGE = "tidegate-airflow"


def get_provider_info() -> dict[str, Any]:
    """What Airflow lists under Providers."""
    return {
        "package-name": PACKAGE,
        "name": "Tidegate",
        "description": "Incremental loading into lakehouse tables.",
        "versions": [metadata.version(PACKAGE)],
        "asset-uris": [{"schemes": ["tidegate"], "handler": None}],
    }
