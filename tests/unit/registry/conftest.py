from __future__ import annotations

import pytest

pytest.register_assert_rewrite(
    "unit.registry.behaviour",
    "unit.registry.behaviour_parts",
    "unit.registry.behaviour_reader",
    "unit.registry.behaviour_runs",
    "unit.registry.behaviour_schema",
    "unit.registry.loads",
)

from unit.registry.loads import raw, registry  # noqa: E402, F401 - fixtures; their asserts are rewritten first


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/state/registry.db"
