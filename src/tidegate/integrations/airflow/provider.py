"""What Airflow lists of this package under Providers."""

from __future__ import annotations

from typing import Any

from tidegate import extras


def get_provider_info() -> dict[str, Any]:
    """What Airflow lists under Providers."""
    return {
        "package-name": "tidegate",
        "name": "Tidegate",
        "description": "Incremental loading into lakehouse tables.",
        "versions": [extras.version()],
        "asset-uris": [{"schemes": ["tidegate"], "handler": None}],
    }
