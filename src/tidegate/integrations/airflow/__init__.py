"""Tidegate in Airflow 3: operators that load and verify streams, a sensor, and assets that tell what was loaded.

Every task runs the program `tidegate`, which may live in an environment of its own.
"""

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
