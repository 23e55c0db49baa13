from urllib.parse import quote

import pytest

from tidegate.config import from_dict
from tidegate.config.nodes import from_values
from tidegate.config.references import References
from tidegate.config.secrets import collect, redact, redacting
from tidegate.core.secret_names import SECRET_NAME


def secrets_of(values, environ, folder):
    references = References(environ=environ, folder=folder)
    return collect(references.resolve(from_values(values)), references.found)


@pytest.mark.parametrize(
    ("values", "environ", "hidden"),
    [
        ({"registry": "postgresql://app:Hunter2!@h/d"}, {}, "Hunter2!"),
        ({"registry": "postgresql://app:Hunter%21@h/d"}, {}, "Hunter!"),
        ({"connections": {"c": {"url": "postgresql://app:${PW}@h/d"}}}, {"PW": "p@s/s"}, "p@s/s"),
        ({"connections": {"c": {"url": "postgresql://app:${PW}@h/d"}}}, {"PW": "p@s/s"}, quote("p@s/s", safe="")),
        ({"connections": {"c": {"url": "${URL}"}}}, {"URL": "postgresql://app:Secret77@h/d"}, "Secret77"),
        ({"connections": {"c": {"url": "postgresql://h/d?password=Secret77"}}}, {}, "Secret77"),
        ({"connections": {"c": {"url": "https://h/${TOKEN}/d"}}}, {"TOKEN": "Tok77"}, "Tok77"),
        ({"lakes": {"lake": {"catalog": {"s3.secret-access-key": "${K}"}}}}, {"K": "AbCdEf123"}, "AbCdEf123"),
        ({"lakes": {"lake": {"catalog": {"uri": "postgresql://a:Secret77@h/d"}}}}, {}, "Secret77"),
        ({"spark": {"conf": {"spark.hadoop.fs.s3a.secret.key": "AbCdEf123"}}}, {}, "AbCdEf123"),
    ],
)
def test_secrets_are_found_and_masked(values, environ, hidden, tmp_path):
    found = secrets_of(values, environ, tmp_path)
    assert hidden in found
    assert redact(f"cannot connect with {hidden} to h", found) == "cannot connect with *** to h"


def test_a_default_that_the_project_file_states_masks_nothing(tmp_path):
    values = {"connections": {"c": {"url": "postgresql://app:${P:-Pass77}@h/${D:-a}?options=${O:-a}"}}}
    assert redact("a row of a table, Pass77", secrets_of(values, {}, tmp_path)) == "a row of a table, ***"
    assert redact("Secret77", secrets_of(values, {"O": "Secret77"}, tmp_path)) == "***"


def test_hosts_users_and_databases_are_no_secrets(tmp_path):
    values = {"connections": {"c": {"url": "postgresql://${U}:${P}@${H}:${PORT}/${D}"}}}
    environ = {"U": "app", "P": "Secret77", "H": "db.example", "PORT": "5432", "D": "shop"}
    text = "app cannot open shop on db.example:5432 with ***"
    assert redact(text.replace("***", "Secret77"), secrets_of(values, environ, tmp_path)) == text


def test_a_short_word_is_masked_as_a_word_only(tmp_path):
    found = secrets_of({"registry": "postgresql://app:app@h/d"}, {}, tmp_path)
    assert redact("applied app://app:app@", found) == "applied ***://***:***@"


def test_a_longer_secret_is_masked_before_a_shorter_one_inside_it(tmp_path):
    values = {"connections": {"a": {"url": "p://u:Secret@h/d"}, "b": {"url": "p://u:Secret77@h/d"}}}
    assert redact("Secret77", secrets_of(values, {}, tmp_path)) == "***"


def test_an_empty_password_masks_nothing_and_a_url_alone_can_be_redacted(tmp_path):
    assert secrets_of({"registry": "postgresql://app:@h/d"}, {}, tmp_path) == ()
    assert redacting("postgresql://app:Secret77@h/d")("x Secret77 y") == "x *** y"


def test_what_came_by_reference_anywhere_is_a_secret_but_names_and_short_words_are_shown(tmp_path):
    values = {
        "connections": {"shop": "sqlite:///x.db"},
        "spark": {"conf": {"spark.hadoop.fs.gs.odd": "${LONG}", "spark.driver.cores": "${FOUR}"}},
        "lakes": {
            "lake": {"warehouse": "s3://${BUCKET}/x", "catalog": {"type": "rest", "uri": "https://h", "prefix": "${P}"}}
        },
        "streams": {
            "t": {
                "source": {"connection": "shop", "query": "SELECT '${QUERY}' AS a"},
                "target": "lake.${SCHEMA}.t",
                "strategy": "full",
                "write": "replace",
            }
        },
    }
    environ = {
        "LONG": "long-value-1",
        "FOUR": "4",
        "BUCKET": "bucket-of-ours",
        "P": "prefix-value",
        "QUERY": "query-value",
        "SCHEMA": "schema-name",
    }
    found = set(from_dict(values, tmp_path, environ=environ).secrets)
    assert {"long-value-1", "prefix-value", "query-value"} <= found
    assert not {"4", "bucket-of-ours", "schema-name"} & found


SECRET_NAMES = """
fs.azure.account.key.mine.dfs.core.windows.net header.Authorization s3.sse.key
google.cloud.auth.service.account.private.key adls.connection-string s3.secret-access-key sasl.jaas.config jdbc.password
"""


def test_names_of_secrets_are_known_and_others_are_not():
    assert [name for name in SECRET_NAMES.split() if not SECRET_NAME.search(name)] == []
    others = ("topic.prefix", "prefix.key", "message.key.columns", "spark.driver.memory", "uri")
    assert [name for name in others if SECRET_NAME.search(name)] == []
