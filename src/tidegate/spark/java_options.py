"""The options of a JVM: one that starts quickly for small loads, for whatever follows a small one, or that lasts."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.spark.shared import JAVA_OPTIONS

CODE_CACHE = "-XX:ReservedCodeCacheSize=240m"
"""With the first compiler alone Java reserves 48 MB: 50 streams fill it in minutes, and what was compiled is lost."""
QUICK = ("-XX:TieredStopAtLevel=1", CODE_CACHE)
"""The first compiler alone: a small load ends before the second would pay."""
LATE = (
    "-XX:Tier4InvocationThreshold=200000",
    "-XX:Tier4MinInvocationThreshold=24000",
    "-XX:Tier4CompileThreshold=600000",
    "-XX:Tier4BackEdgeThreshold=1600000",
)
"""Both compilers, the second one for code that runs 40 times as often as Java waits for by default: the loops over many
rows, but neither the start nor small loads."""
COLLECTOR = "-XX:+UseG1GC"
HEAP = ("-XX:G1PeriodicGCInterval=30000", "-XX:MinHeapFreeRatio=10", "-XX:MaxHeapFreeRatio=30")
LASTING = (COLLECTOR, *HEAP, CODE_CACHE)
"""Both compilers, and memory that goes back to the system while nothing happens."""


def lasting(user: Mapping[str, str]) -> tuple[str, ...]:
    """Those of a JVM that runs for days, to stand before the user's, which win.

    Args:
        user: the project's settings of Spark; two collectors at once start no JVM.
    """
    chosen = user.get(JAVA_OPTIONS, "").split()
    if any(each.startswith("-XX:+Use") and each.endswith("GC") for each in chosen):
        return tuple(each for each in LASTING if each != COLLECTOR)
    return LASTING
