"""`python -m tidegate.loaders`: runs the four load patterns on sample data, in a temporary folder."""

import sys
import tempfile

from tidegate.loaders._selftest import SelfTest
from tidegate.spark.session import Sessions


def main() -> int:
    """0 when every pattern loaded what it should."""
    few = {"spark.sql.shuffle.partitions": "1", "spark.sql.codegen.wholeStage": "false"}
    with tempfile.TemporaryDirectory(prefix="tidegate-loaders-") as folder, Sessions(conf=few) as sessions:
        passed = SelfTest(sessions.load_session(small=True), folder, lambda line: sys.stdout.write(f"{line}\n")).run()
    return 0 if passed else 1


if __name__ == "__main__":
    raise SystemExit(main())
