"""How a number of bytes is written."""

import pytest

from tidegate.config.sizes import size


@pytest.mark.parametrize(
    ("text", "number"),
    [("32MB", 32_000_000), ("1 GiB", 2**30), ("0.5kB", 500), ("7B", 7), (" 2MiB ", 2 * 2**20)],
)
def test_sizes(text, number):
    assert size(text) == number


@pytest.mark.parametrize("text", ["32", 32, "MB", "-1MB", "1 mb", "1e3MB", "1TB", "", None, "1_0MB"])
def test_what_is_no_size(text):
    with pytest.raises(ValueError, match="must be a size"):
        size(text)
