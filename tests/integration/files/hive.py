"""A Spark of somebody who has tables in Hive: Iceberg's catalog lies over its own, and the lake is the same metastore.

Usage: hive.py METASTORE FOLDER STATEMENT…
"""

import sys

from pyspark.sql import SparkSession

from tidegate.spark import jars

OVER, LAKE = "spark.sql.catalog.spark_catalog", "spark.sql.catalog.lake"


def main():
    metastore, folder, *statements = sys.argv[1:]
    settings = {
        "spark.driver.memory": "768m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.jars": ",".join(map(str, jars.resolve([jars.ICEBERG]))),
        "spark.hadoop.hive.metastore.uris": metastore,
        "spark.hadoop.hive.exec.dynamic.partition.mode": "nonstrict",
        "spark.sql.warehouse.dir": f"file://{folder}",
        "spark.sql.shuffle.partitions": "1",
        # Files as Hive's own classes write them, not Spark's.
        "spark.sql.hive.convertMetastoreParquet": "false",
        "spark.sql.hive.convertMetastoreOrc": "false",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        OVER: "org.apache.iceberg.spark.SparkSessionCatalog",
        f"{OVER}.type": "hive",
        LAKE: "org.apache.iceberg.spark.SparkCatalog",
        f"{LAKE}.type": "hive",
        f"{LAKE}.uri": metastore,
    }
    builder = SparkSession.builder.master("local[1]").enableHiveSupport()
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    for statement in statements:
        spark.sql(statement).collect()
    spark.stop()


if __name__ == "__main__":
    main()
