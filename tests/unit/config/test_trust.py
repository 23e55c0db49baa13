"""What a project file could run code with is refused, unless whoever runs the command trusts it."""

import pytest

from tidegate.config import from_dict
from tidegate.errors import ConfigError

STREAM = {"source": {"connection": "shop", "table": "t"}, "target": "lake.s.t", "strategy": "full", "write": "replace"}


CODE = """
spark.driver.extraJavaOptions spark.driver.defaultJavaOptions spark.executor.extraJavaOptions
spark.driver.extraClassPath spark.executor.extraClassPath spark.driver.extraLibraryPath
spark.driver.userClassPathFirst spark.jars spark.jars.packages spark.jars.repositories spark.jars.ivySettings
spark.plugins spark.extraListeners spark.files spark.archives spark.submit.pyFiles spark.pyspark.python
spark.pyspark.driver.python spark.executorEnv.LD_PRELOAD spark.yarn.dist.jars spark.yarn.jars
spark.kubernetes.container.image spark.kubernetes.driver.podTemplateFile spark.serializer
spark.closure.serializer spark.kryo.registrator spark.kryo.classesToRegister spark.shuffle.manager
spark.shuffle.sort.io.plugin.class spark.io.compression.codec spark.storage.replication.policy spark.ui.filters
spark.redaction.regex spark.sql.redaction.options.regex spark.sql.extensions spark.sql.catalog.x
spark.sql.catalog.lake.io-impl spark.sql.catalogImplementation spark.sql.hive.metastore.jars
spark.sql.hive.metastore.jars.path spark.sql.queryExecutionListeners spark.sql.streaming.streamingQueryListeners
spark.sql.sources.outputCommitterClass spark.sql.sources.commitProtocolClass
spark.sql.parquet.output.committer.class spark.sql.cache.serializer spark.sql.streaming.stateStore.providerClass
spark.sql.artifact.isolation.enabled spark.connect.extensions.relation.classes spark.delta.logStore.class
spark.delta.logStore.s3.impl spark.hadoop.fs.x.impl spark.hadoop.fs.s3a.impl
spark.hadoop.fs.AbstractFileSystem.s3a.impl spark.hadoop.fs.s3a.custom.signers
spark.hadoop.fs.s3a.s3.client.factory.impl spark.hadoop.fs.s3a.audit.service.classname
spark.hadoop.fs.azure.shellkeyprovider.script spark.hadoop.fs.azure.sas.token.provider.type
spark.hadoop.fs.gs.auth.access.token.provider.impl spark.hadoop.parquet.crypto.factory.class
spark.hadoop.hadoop.security.credential.provider.path spark.hadoop.javax.jdo.option.ConnectionURL fs.x.impl
hive.exec.pre.hooks
"""


def project(**more):
    return {"connections": {"shop": "sqlite:///x.db"}, "streams": {"t": STREAM}, **more}


def refused(tmp_path, values) -> str:
    with pytest.raises(ConfigError) as caught:
        from_dict(values, tmp_path, environ={})
    assert "--trust-project" in caught.value.hint
    from_dict(values, tmp_path, environ={}, trusted=True)
    from_dict(values, tmp_path, environ={"TIDEGATE_TRUST_PROJECT": "1"})
    return caught.value.message


@pytest.mark.parametrize("name", CODE.split())
def test_a_setting_that_may_run_code_is_refused(tmp_path, name):
    assert f"spark.conf.{name}: is not a setting" in refused(tmp_path, project(spark={"conf": {name: "x"}}))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (
            "spark.hadoop.fs.s3a.aws.credentials.provider",
            "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider,a.Evil",
        ),
        ("spark.hadoop.fs.azure.account.auth.type.x.dfs.core.windows.net", "Custom"),
        ("spark.sql.parquet.compression.codec", "org.evil.Codec"),
        ("spark.sql.files.anything", "org.evil.Code"),
        ("spark.driver.memory", " evil.Code "),
    ],
)
def test_a_class_is_refused_where_plain_values_are_not(tmp_path, name, value):
    refused(tmp_path, project(spark={"conf": {name: value}}))


def test_ordinary_settings_need_no_flag(tmp_path):
    ordinary = {
        "spark.driver.memory": "4g",
        "spark.executor.instances": 2,
        "spark.executor.memory": "4g",
        "spark.local.dir": "/tmp/x",
        "spark.ui.enabled": True,
        "spark.eventLog.enabled": True,
        "spark.eventLog.dir": "file:///tmp/events",
        "spark.sql.shuffle.partitions": 8,
        "spark.sql.adaptive.enabled": True,
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.parquet.filterPushdown": True,
        "spark.sql.optimizer.excludedRules": "",
        "spark.dynamicAllocation.enabled": True,
        "spark.yarn.queue": "etl",
        "spark.hadoop.fs.s3a.access.key": "a",
        "spark.hadoop.fs.s3a.secret.key": "b",
        "spark.hadoop.fs.s3a.endpoint": "https://s3.example",
        "spark.hadoop.fs.s3a.endpoint.region": "eu-central-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.bucket.my-bucket.access.key": "a",
        "spark.hadoop.fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        "spark.hadoop.fs.azure.account.key.mine.dfs.core.windows.net": "x",
        "spark.hadoop.fs.azure.account.auth.type": "OAuth",
    }
    assert from_dict(project(spark={"conf": ordinary}), tmp_path, environ={}).spark.conf


CODE_OF_CATALOGS = """
io-impl catalog-impl py-io-impl py-catalog-impl client.factory client.credentials-provider s3.client-factory-impl
rest.auth.type rest-metrics-reporter metrics-reporter-impl table-default.write.location-provider.impl jdbc.socketFactory
"""


@pytest.mark.parametrize("option", [*CODE_OF_CATALOGS.split(), "header.x"])
def test_a_catalogs_option_that_names_code_is_refused(tmp_path, option):
    lake = {"lake": {"catalog": {"type": "rest", "uri": "https://x", option: "org.evil.Code"}}}
    assert "known to run no code" in refused(tmp_path, project(lakes=lake))


@pytest.mark.parametrize("word", ["socketFactory", "sslfactory", "authenticationPluginClassName", "loggerFile"])
def test_a_catalogs_url_names_no_class(tmp_path, word):
    lake = {"lake": {"catalog": {"type": "postgresql", "uri": f"postgresql://u@h/d?sslmode=require&{word}=x.Y"}}}
    found = refused(tmp_path, project(lakes=lake))
    assert "may load code, parameter 2 of its query" in found
    assert word not in found


@pytest.mark.parametrize(("written", "meant"), [("credentail", "credential"), ("Warehouse", "warehouse")])
def test_a_misspelt_option_of_a_catalog_is_told_the_nearest(tmp_path, written, meant):
    lake = {"lake": {"catalog": {"type": "rest", "uri": "https://x", written: "y", "rest-table-cache.max": 5}}}
    assert f"did you mean '{meant}'?" in refused(tmp_path, project(lakes=lake))


def test_ordinary_catalogs_need_no_flag(tmp_path):
    lakes = {
        "a": {"catalog": {"type": "postgresql", "uri": "postgresql://u:p@h/d?sslmode=verify-full&sslrootcert=/ca.pem"}},
        "b": {"catalog": {"type": "rest", "uri": "https://x", "token": "t", "s3.region": "eu", "header.X-Y": "z"}},
        "c": {
            "catalog": {
                "type": "rest",
                "uri": "https://x",
                "credential": "a:b",
                "scope": "s",
                "rest.auth.type": "oauth2",
            }
        },
        "lake": {"catalog": {"type": "sqlite", "s3.endpoint": "http://h", "s3.secret-access-key": "k"}},
    }
    assert from_dict(project(lakes=lakes), tmp_path, environ={}).lakes


def test_python_code_is_called_only_if_trusted(tmp_path):
    stream = {**STREAM, "source": {"dlt": "os:system", "args": {"command": "id"}}}
    assert "streams.t.source.dlt: imports and calls Python" in refused(tmp_path, project(streams={"t": stream}))


@pytest.mark.parametrize(
    "check",
    [
        {"expression": "reflect('java.lang.System', 'getenv') IS NULL"},
        {"not_null": "id", "where": "java_method('java.lang.System', 'exit', 1) = 'x'"},
        {"kind": "expression", "sql": "some_udf(id)"},
    ],
)
def test_functions_that_run_code_are_refused_in_checks(tmp_path, check):
    for values in (project(streams={"t": {**STREAM, "checks": [check]}}), project(defaults={"checks": [check]})):
        refused(tmp_path, values)


def test_the_projects_own_variables_do_not_trust_it(tmp_path):
    (tmp_path / ".env").write_text("TIDEGATE_TRUST_PROJECT=1\n")
    with pytest.raises(ConfigError, match="extraJavaOptions"):
        from_dict(project(spark={"conf": {"spark.driver.extraJavaOptions": "-agentpath:x"}}), tmp_path, environ={})


def test_a_profile_is_not_trusted_either(tmp_path):
    values = project(profiles={"p": {"spark": {"conf": {"spark.plugins": "x"}}}})
    with pytest.raises(ConfigError, match=r"spark.plugins"):
        from_dict(values, tmp_path, profile="p", environ={})
