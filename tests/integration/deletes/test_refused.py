"""What is refused before Spark starts."""

from support.workspace import SqliteShop, Workspace


def test_a_column_at_the_source_of_the_name_that_marks(no_spark, tmp_path):
    shop, workspace = SqliteShop(path=tmp_path / "shop.db"), Workspace(folder=tmp_path)
    shop.sql("create table t (id integer primary key, Deleted_At text)")
    stream = {"source": {"connection": "shop", "table": "t"}, "target": "lake.out.t", "key": ["id"]}
    stream |= {"strategy": "snapshot_diff", "write": "merge", "deletes": {"apply": "soft"}}
    workspace.write({"t": stream}, connections={"shop": {"url": shop.url}})
    error = workspace.run("t").streams[0].error
    assert (error.code, "`source: {exclude: [Deleted_At]}`" in error.hint) == ("schema_refused", True)
    stream["source"] |= {"exclude": ["Deleted_At"]}
    workspace.write({"t": stream}, connections={"shop": {"url": shop.url}})
    with workspace.project() as project:
        assert project.plan("t").streams[0].error is None
