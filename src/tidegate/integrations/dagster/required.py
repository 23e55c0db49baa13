"""Says what to install where Dagster is missing."""

from tidegate import extras
from tidegate.errors import EnvironmentMissing

try:
    import dagster  # noqa: F401 - whether it is there
except ImportError as error:
    raise EnvironmentMissing("Dagster is not installed", hint=extras.hint("dagster")) from error
