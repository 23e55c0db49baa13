from urllib.parse import quote

import pytest

from tidegate.config.nodes import from_values
from tidegate.config.references import References
from tidegate.errors import ConfigError

ENVIRON = {"NAME": "value", "EMPTY": "", "PW": "p@s/s:#%"}


def resolve(text, folder, environ=ENVIRON):
    references = References(environ=environ, folder=folder)
    return references.resolve(from_values({"a": {"b": [text]}})).plain()["a"]["b"][0]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${NAME}", "value"),
        ("x${NAME}y${NAME}", "xvaluey" + "value"),
        ("${EMPTY}", ""),
        ("${ABSENT:-else}", "else"),
        ("${ABSENT:-}", ""),
        ("${EMPTY:-else}", "else"),
        ("${NAME:-else}", "value"),
        ("$${NAME}", "${NAME}"),
        ("$$${NAME}", "$${NAME}"),
        ("$NAME $ $$", "$NAME $ $$"),
        (5, 5),
        (None, None),
    ],
)
def test_references(text, value, tmp_path):
    assert resolve(text, tmp_path) == value


def test_a_resolved_value_is_not_resolved_again(tmp_path):
    assert resolve("${A}", tmp_path, {"A": "${B}"}) == "${B}"


def test_files_lose_their_last_line_break_only(tmp_path):
    (tmp_path / "secret").write_text(" pa ss \r\n", encoding="utf-8")
    assert resolve("${file:secret}", tmp_path) == " pa ss "
    assert resolve(f"${{file:{tmp_path / 'secret'}}}", tmp_path) == " pa ss "


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("${ABSENT}", "a.b.0: needs the environment variable ABSENT, which is not set"),
        ("${file:absent}", "needs the file absent, which cannot be read: No such file"),
        ("${", "without a `}`"),
        ("a ${NAME", "without a `}`"),
        ("${}", "has the reference ${}"),
        ("${1A}", "has the reference ${1A}"),
        ("${A B}", "has the reference"),
    ],
)
def test_what_cannot_be_resolved_says_where(text, part, tmp_path):
    with pytest.raises(ConfigError) as caught:
        resolve(text, tmp_path)
    assert part in caught.value.message


def test_a_file_that_is_no_text_is_refused_by_name(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="binary, which cannot be read: it is not a text file"):
        resolve("${file:binary}", tmp_path)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("postgresql://app:${PW}@host/db", "postgresql://app:p%40s%2Fs%3A%23%25@host/db"),
        ("postgresql://${PW}:${PW}@host/db", "postgresql://p%40s%2Fs%3A%23%25:p%40s%2Fs%3A%23%25@host/db"),
        ("${NAME}://app:${PW}@host/db", "value://app:p%40s%2Fs%3A%23%25@host/db"),
        ("postgresql://host/${NAME}?x=@", "postgresql://host/value?x=@"),
        ("${URL}", "postgresql://app:a%40b@host/db"),
        ("postgresql://app@${NAME}:5432/db", "postgresql://app@value:5432/db"),
    ],
)
def test_any_password_fits_into_a_url(text, value, tmp_path):
    environ = {**ENVIRON, "URL": "postgresql://app:a%40b@host/db"}
    assert resolve(text, tmp_path, environ) == value


ODD = "a+b&c#d%2Be f=g\n/h@"
ENCODED = quote(ODD, safe="")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("snowflake://me@acme/D?token=${ODD}", f"snowflake://me@acme/D?token={ENCODED}"),
        ("snowflake://me@acme/D?role=R&token=${ODD}&x=y", f"snowflake://me@acme/D?role=R&token={ENCODED}&x=y"),
        ("https://h/v1?a=${ODD}&b=x${ODD}${ODD}#f", f"https://h/v1?a={ENCODED}&b=x{ENCODED}{ENCODED}#f"),
        ("jdbc:postgresql://h/d?password=${ODD}", f"jdbc:postgresql://h/d?password={ENCODED}"),
        ("postgresql://h/d?sslrootcert=${ABSENT:-/ca.pem}", "postgresql://h/d?sslrootcert=%2Fca.pem"),
        ("${URL}&token=${ODD}", f"snowflake://me:a%40b@acme/D?role=R&token={ENCODED}"),
        ("${URL}", "snowflake://me:a%40b@acme/D?role=R"),
        ("snowflake://me@acme/D?${QUERY}", "snowflake://me@acme/D?role=R&token=a%2Bb"),
        ("snowflake://me@acme/D?x=y&${QUERY}", "snowflake://me@acme/D?x=y&role=R&token=a%2Bb"),
        ("snowflake://me@acme/D?x=y&${NAME}=z", "snowflake://me@acme/D?x=y&value=z"),
        ("https://h/${ODD}", f"https://h/{ODD}"),
        ("SELECT 'https://h/?a=${ODD}'", f"SELECT 'https://h/?a={ODD}'"),
        ("a=${ODD}", f"a={ODD}"),
    ],
)
def test_any_value_fits_into_an_option_of_a_url(text, value, tmp_path):
    environ = {**ENVIRON, "ODD": ODD, "URL": "snowflake://me:a%40b@acme/D?role=R", "QUERY": "role=R&token=a%2Bb"}
    assert resolve(text, tmp_path, environ) == value


def test_a_secret_file_fits_into_a_url(tmp_path):
    (tmp_path / "pw").write_text("p@ss\n", encoding="utf-8")
    text = f"postgresql://app:${{file:{tmp_path / 'pw'}}}@host/db"
    assert resolve(text, tmp_path) == "postgresql://app:p%40ss@host/db"


def test_the_value_is_not_in_the_repr(tmp_path):
    references = References(environ={"PW": "hunter2"}, folder=tmp_path)
    references.resolve(from_values({"a": "${PW}"}))
    assert references.found[0][1] == "hunter2"
    assert "found" not in repr(references)
