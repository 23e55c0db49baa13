"""Which settings the event log of Spark masks."""

import re

import pytest

from tidegate.errors import ConfigError
from tidegate.spark.masks import IN_PLANS, REGEX, Masks


def test_a_setting_that_holds_a_secret_is_masked_whatever_it_is_called():
    conf = Masks(("hunter2",)).masked({"spark.hadoop.fs.gs.odd": "x hunter2", "spark.driver.memory": "1g"})
    for masked in ("spark.hadoop.fs.gs.odd", "fs.gs.odd", IN_PLANS, "spark.hadoop.fs.azure.account.key.x"):
        assert re.search(conf[REGEX], masked), masked
    assert not re.search(conf[REGEX], "spark.driver.memory")


@pytest.mark.parametrize("key", ["spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"])
def test_the_options_of_java_take_no_secret(key):
    for secret in ("hunter2", "user"):
        with pytest.raises(ConfigError, match="holds a secret") as caught:
            Masks((secret,)).need_unshown({key: f"-Dx={secret}"})
        assert secret not in str(caught.value)


def test_a_short_word_is_a_secret_as_a_whole_word_only():
    masks = Masks(("user", "7"))
    assert not masks.hide("spark.driver.extraJavaOptions", "-Duser.timezone=UTC -Xss17m")
    masks.need_unshown({"spark.driver.extraJavaOptions": "-Duser.timezone=UTC -Xss17m"})
    assert masks.hide("spark.hadoop.odd", "app:user@host")
    assert not re.search(masks.masked({})[IN_PLANS], "users: 17")
    assert re.search(masks.masked({})[IN_PLANS], "a user")
