"""Which functions an expression of the project file may call."""

import pytest

from tidegate.errors import ConfigError
from tidegate.spark.expressions import columns_of
from tidegate.spark.functions import ALLOWED, REFUSED, refusal

FINE = """
upper(code) = code AND amount IN (1, 2)
cast(a AS decimal(10, 2)) > 1 OR a::decimal(3,1) > 0
exists(tags, x -> x > 1)
NOT (a) AND (b) OR (c)
CASE WHEN (a) THEN (b) ELSE (c) END
timestampdiff(day, a, b) > 1
status = 'reflect' AND kind <> 'foo (bar)'
reflect IS NOT NULL
a LIKE ANY ('x', 'y') AND b BETWEEN (1) AND (2)
extract(year FROM at) > 2000 AND trim(BOTH 'x' FROM name) <> ''
r'\\' = name -- a remark (of a person)
""".strip().splitlines()
EVIL = """
reflect('java.lang.Runtime', 'getRuntime') IS NULL
REFLECT ('a', 'b') = ''
`reflect`('a', 'b') = ''
java_method/* x */('a', 'b') = ''
identifier('re' || 'flect')('a', 'b') = ''
session.my_function(a) = 1
lake.system.bucket(2, a) = 1
my_function(a) = 1
`my function`(a) = 1
coalesce(a, upper(my_function(b))) = 1
transform(a, x -> my_function(x)) IS NULL
from_xml(a, 'x int', map('rowValidationXSDPath', '/etc/passwd')) IS NULL
from_protobuf(a, 'java.lang.Evil') IS NULL
${spark.app.name} IS NULL
a = '${spark.app.name}'
""".strip().splitlines()


@pytest.mark.parametrize("sql", FINE)
def test_ordinary_expressions_pass(sql):
    assert refusal(sql) is None


@pytest.mark.parametrize("sql", EVIL)
def test_what_may_run_code_does_not(sql):
    assert refusal(sql)


@pytest.mark.parametrize("sql", ["try_reflect\n-- x\n('a', 'b') = ''", "a = 1 -- \\\n' \n AND reflect('a', 'b') = ''"])
def test_remarks_and_texts_hide_nothing(sql):
    """Spark goes on with a remark after a backslash, the parser here does not."""
    assert refusal(sql)


def test_nothing_is_both():
    assert not ALLOWED & REFUSED.keys()


@pytest.mark.parametrize(
    "sql", ["exists (SELECT 1 FROM parquet.`/etc`)", "id IN (SELECT 1)", "(SELECT max(x) FROM t) = 1"]
)
def test_a_condition_asks_no_other_table(sql):
    with pytest.raises(ConfigError, match="more than one row"):
        columns_of(sql)
