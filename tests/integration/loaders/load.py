"""A script as people submit it to a cluster: a session of its own, two loaders, nothing else.

Usage: load.py FOLDER
"""

import json
import sys

from pyspark.sql import SparkSession

import tidegate
from tidegate.loaders import CDCLoader, TimestampBasedLoader


def settings(spark):
    """But for the one that Delta itself notes there."""
    return {row.key: row.value for row in spark.sql("SET").collect() if "lastCommitVersion" not in row.key}


def main():
    spark = SparkSession.builder.appName("load").getOrCreate()
    before, folder = settings(spark), sys.argv[1]
    source, events, marks = (f"{folder}/{name}" for name in ("source", "events", "watermarks"))
    results = [
        TimestampBasedLoader(spark).load_incremental(source, f"{folder}/orders", marks, "at", "orders"),
        CDCLoader(spark, target_format="delta").process_cdc(events, f"{folder}/customers", marks, "id", "customers"),
    ]
    assert settings(spark) == before
    told = {"program": tidegate.__file__, "records": {result.table_name: result.records for result in results}}
    sys.stdout.write(f"{json.dumps(told)}\n")
    spark.stop()


if __name__ == "__main__":
    main()
