"""Options under the names that they have in other tools."""

import pytest

from tidegate import config
from tidegate.config import build
from tidegate.errors import ConfigError
from tidegate.strategies.checksum import Checksum, Method, Period


def strategy(tmp_path, defaults=None, **options):
    values = {
        "connections": {"shop": "sqlite:///shop.db"},
        "defaults": defaults or {},
        "streams": {
            "sales": {
                "source": {"connection": "shop", "table": "sales"},
                "target": "lake.shop.sales",
                "strategy": {"kind": "checksum", **options},
                "write": "replace",
            }
        },
    }
    return build("strategies", config.from_dict(values, folder=tmp_path).streams[0].strategy)


def test_the_terms_of_dmva(tmp_path):
    words = {"type": "by_date", "column_name": "day", "period": "month", "lookback": "20241201"}
    same = Checksum(method=Method.BY_DATE, column="day", period=Period.MONTH, lookback="20241201")
    assert strategy(tmp_path, **words) == same
    assert strategy(tmp_path, type="WHOLE TABLE") == strategy(tmp_path, method="WHOLE TABLE") == Checksum()


@pytest.mark.parametrize(
    "words",
    [
        {"type": "by_date", "method": "by_integer", "column": "day", "period": "day"},
        {"method": "by_date", "column": "day", "column_name": "sold_on", "period": "day"},
    ],
)
def test_one_option_under_two_names_is_refused(words, tmp_path):
    with pytest.raises(ConfigError, match="which are one option"):
        strategy(tmp_path, **words)


def test_the_streams_own_word_wins_over_a_default(tmp_path):
    found = strategy(tmp_path, {"column": "changed_at"}, type="by_date", column_name="day", period="day")
    assert found.column == "day"


def test_other_strategies_do_not_have_them(tmp_path):
    with pytest.raises(ConfigError, match="did you mean 'column'"):
        strategy(tmp_path, kind="watermark", column_name="day")
