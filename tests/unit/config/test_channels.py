"""Where a project's alerts may be sent."""

import pytest

from tidegate import config
from tidegate.errors import ConfigError


@pytest.mark.parametrize("scheme", ["json", "XML", "form"])
def test_a_webhook_is_not_called_in_the_clear(tmp_path, scheme):
    def of(url, **more):
        stream = {"source": {"path": "a.csv"}, "target": "lake.a.a", "strategy": "full", "write": "replace"}
        values = {"alerts": {"channels": {"chat": {"url": url, **more}}}, "streams": {"a": stream}}
        return config.from_dict(values, tmp_path, environ={})

    with pytest.raises(ConfigError, match=rf"alerts\.channels\.chat.*{scheme.lower()}:// sends the address") as caught:
        of(f"{scheme}://hooks.example.com/hidden-token")
    assert "hidden-token" not in f"{caught.value}{caught.value.hint}"
    for url in (f"{scheme}s://hooks.example.com/t", f"{scheme}://127.0.0.1:80/t", f"{scheme}://localhost/t"):
        of(url)
    of(f"{scheme}://hooks.example.com/t", plain_http=True)
