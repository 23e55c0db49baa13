"""What lets a writer forget a history is made of a person's flag, in one place."""

import re
from pathlib import Path

import tidegate

SOURCE = Path(tidegate.__file__).parent


def test_only_the_engine_makes_a_reset_of_the_users_flag():
    made = [str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if re.search(r"\bReset\(", path.read_text())]
    assert made == ["engine/context.py"]


def test_no_strategy_names_it():
    assert [path.name for path in (SOURCE / "strategies").glob("*.py") if "Reset" in path.read_text()] == []
