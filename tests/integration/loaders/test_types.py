"""Types that differ: between a source and its target, between two loads, and between a session and a file."""

import pytest

from tidegate.errors import CheckFailed, ConfigError, SchemaRefused, TidegateError
from tidegate.loaders import DeltaTimestampLoader, SequenceBasedLoader, TimestampBasedLoader

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_a_row_whose_value_the_table_shortens_is_loaded_once(bench, lake, kind):
    bench.know(lake, "shortened")
    bench.spark.sql("CREATE NAMESPACE IF NOT EXISTS shortened.shop")
    table = {"iceberg": "shortened.shop.prices", "delta": "spark_catalog.default.shortened_prices"}[kind]
    where = f" LOCATION '{bench.path('delta')}'" if kind == "delta" else ""
    bench.spark.sql(f"CREATE TABLE {table} (id bigint, price decimal(10,2)) USING {kind}{where}")

    def records(*rows):
        prices = bench.spark.createDataFrame(rows, "id int, price string")
        typed = prices.selectExpr("id", "CAST(price AS decimal(18,4)) AS price")
        typed.write.mode("append").parquet(bench.path("prices"))
        loader = SequenceBasedLoader(bench.spark)
        return loader.load_incremental(bench.path("prices"), table, bench.marks, "id", lookback=10).records

    assert [records((1, "1.2345"), (1, "1.2345"), (2, None), (3, "1.23")), records()] == [4, 0]
    assert [records((1, "1.2345")), records()] == [1, 0]
    # One that does not fit is no NULL that is there already.
    with pytest.raises(TidegateError):
        records((2, "123456789.5"))
    assert bench.spark.table(table).count() == 5
    bench.spark.sql(f"DROP TABLE {table}")


def test_a_folder_takes_no_value_that_its_type_would_shorten(bench):
    def load(kind):
        rows = bench.spark.sql(f"SELECT 1 AS id, CAST(1.2345 AS {kind}) AS price")
        rows.write.mode("overwrite").parquet(bench.path("source"))
        loader = SequenceBasedLoader(bench.spark)
        return loader.load_incremental(bench.path("source"), bench.path("target"), bench.marks, "id").records

    assert load("decimal(10,2)") == 1
    with pytest.raises(SchemaRefused, match=r"column 'price' is decimal\(18,4\) now and decimal\(10,2\)"):
        load("decimal(18,4)")


def test_a_time_whose_type_changed_is_not_compared_with_the_watermark_of_before(bench):
    def write(kind, time):
        rows = bench.spark.sql(f"SELECT 1L AS id, CAST('2025-01-01 {time}' AS {kind}) AS at")
        rows.write.mode("overwrite").parquet(bench.path("source"))
        options = {"overwriteSchema": "true"}
        rows.write.format("delta").mode("overwrite").options(**options).save(bench.path("table"))

    def files():
        loader = TimestampBasedLoader(bench.spark)
        return loader.load_incremental(bench.path("source"), bench.path("files"), bench.marks, "at").records

    reader = DeltaTimestampLoader(bench.spark, bench.path("table"), bench.path("noted"), "at")

    def table():
        goal = bench.path("goal")
        loader = DeltaTimestampLoader(bench.spark, bench.path("table"), bench.path("noted"), "at", target=goal)
        return loader.load().records

    write("timestamp_ntz", "15:00:00")
    assert [files(), table(), reader.read_data().count()] == [1, 1, 1]
    reader.confirm()
    # Of New York, so it is 14:00 in UTC, in which the watermark would be read.
    write("timestamp", "09:00:00")
    for load in (files, table, reader.read_data):
        with pytest.raises(ConfigError, match="is of type timestamp, and its watermark was written as timestamp_ntz"):
            load()


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_a_time_whose_offset_has_seconds_is_kept(bench, kind):
    times = ("0001-01-02 00:00:00", "1800-01-01 00:00:00", "1883-11-18 12:00:00.000001", "2025-03-09 07:30:00")
    values = ", ".join(f"(TIMESTAMP '{time}+00:00')" for time in times)
    rows = bench.spark.sql(f"SELECT unix_micros(at) AS micros, at FROM VALUES {values} AS t(at)")
    rows.write.parquet(bench.path("source"))
    loader = SequenceBasedLoader(bench.spark, target_format=kind)  # in New York, 4:56:02 behind UTC before 1883
    loader.load_incremental(bench.path("source"), bench.path("target"), bench.marks, "micros")
    found = loader.read(bench.path("target")).selectExpr("micros", "unix_micros(at)").collect()
    assert len(found) == len(times)
    assert all(micros == at for micros, at in found)


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_a_folder_gives_every_value_back_in_a_session_whose_times_have_no_zone(bench, kind):
    session = bench.spark.newSession()
    session.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    values = "(1, '', 'x', 0), (2, NULL, '', 1), (3, ' ', NULL, 2)"
    rows = session.sql(f"SELECT id, a, b, timestamp_seconds(s) AS at FROM VALUES {values} AS t(id, a, b, s)")
    rows.write.parquet(bench.path("source"))
    loader = TimestampBasedLoader(session, target_format=kind)

    def load():
        where = (bench.path("source"), bench.path("target"), bench.marks, "at")
        loader.load_incremental(*where, primary_key="id")
        found = loader.read(bench.path("target"))
        assert dict(found.dtypes)["at"] == "timestamp"
        return sorted(map(tuple, found.selectExpr("id", "a", "b", "unix_seconds(at)").collect()))

    kept = [(1, "", "x", 0), (2, None, "", 1), (3, " ", None, 2)]
    assert load() == kept
    session.sql("SELECT 4 AS id, '' AS a, '' AS b, timestamp_seconds(9) AS at").write.mode("append").parquet(
        bench.path("source")
    )
    assert load() == [*kept, (4, "", "", 9)], "rewritten as a whole"


@pytest.mark.parametrize(
    ("kind", "by", "values", "error"),
    [("csv", ["id"], "(1, NULL)", CheckFailed), ("parquet", ["v"], "(1, timestamp_seconds(0))", SchemaRefused)],
)
def test_a_folder_takes_no_value_that_would_be_read_as_another(bench, kind, by, values, error):
    bench.spark.sql(f"SELECT * FROM VALUES {values} AS t(id, v)").write.parquet(bench.path("source"))
    loader = SequenceBasedLoader(bench.spark, target_format=kind, partition_by=by)
    with pytest.raises(error, match="'v'"):
        loader.load_incremental(bench.path("source"), bench.path("target"), bench.marks, "id")


def test_columns_of_csv_files_keep_their_names_and_empty_texts(bench):
    folder = bench.folder / "source"
    folder.mkdir()
    (folder / "1.csv").write_text('id,a,b\n1,,""\n')
    loader = SequenceBasedLoader(bench.spark, schema="id bigint, a string, b string")
    where = (str(folder), bench.path("target"), bench.marks, "id")
    loader.load_incremental(*where)
    assert bench.rows(loader, bench.path("target")) == [(1, None, "")]
    (folder / "2.csv").write_text("id,b,a\n2,b2,a2\n")
    with pytest.raises(TidegateError, match="header"):
        loader.load_incremental(*where)
