"""Random histories under a rule: once it is corrected and the rest replayed, the table is as if it was never asked."""

import random
from dataclasses import dataclass, field

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1500), pytest.mark.slow]

BAD = {"expression": "amount >= 0", "on_fail": "quarantine"}
ANY = {"expression": "amount > -1000000", "on_fail": "quarantine"}
WINDOW = {"kind": "watermark", "column": "updated_at", "lookback": "30d"}
KINDS = {
    "merge": {"strategy": WINDOW, "deletes": {"detect": "key_diff", "max_fraction": 1}},
    "soft": {"strategy": WINDOW, "deletes": {"detect": "key_diff", "apply": "soft", "max_fraction": 1}},
    "mirror": {"strategy": "snapshot_diff"},
    "replace": {"strategy": "full", "write": "replace", "key": None},
    "scd2": {"strategy": {"kind": "watermark", "column": "updated_at"}, "write": "scd2"},
}
CASES = [
    ("iceberg", "merge"),
    pytest.param("delta", "soft", marks=pytest.mark.exhaustive),
    pytest.param("iceberg", "mirror", marks=pytest.mark.exhaustive),
    pytest.param("delta", "replace", marks=pytest.mark.exhaustive),
    ("delta", "scd2"),
]


@dataclass(kw_only=True)
class History:
    """A source table that changes, and what its loads have seen: amount and moment of each key."""

    bench: object
    kind: str
    rows: dict = field(default_factory=dict)
    seen: dict = field(default_factory=dict)
    good: dict = field(default_factory=dict)

    def change(self, chance: random.Random, load: int) -> None:
        for key in range(40):
            # Some changes share their moment with the one before.
            tick = load * 10 - (0 if self.kind == "scd2" or not load else chance.choice((0, 10)))
            amount = chance.choice((-1, 1)) * chance.randrange(1, 1000)
            at = f"'2025-01-01 00:{tick // 60:02}:{tick % 60:02}'"
            what = chance.choice(("write", "write", "delete", "nothing"))
            if what == "delete" and self.kind != "scd2":
                self.bench.shop.sql(f"delete from orders where id = {key}")
                self.rows.pop(key, None)
            elif what == "write":
                self.bench.shop.sql(f"insert or replace into orders values ({key}, {amount}, 'paid', {at})")
                self.rows[key] = (amount, tick)

    def loaded(self) -> None:
        """A load has seen it."""
        for key, row in self.rows.items():
            versions = self.seen.setdefault(key, [])
            versions += [] if row in versions else [row]
        kept = {} if self.kind in {"mirror", "replace"} else self.good
        self.good = {key: row for key, row in kept.items() if key in self.rows}
        self.good |= {key: row for key, row in self.rows.items() if row[0] > 0}

    def waiting(self) -> list[int]:
        versions = [row for each in self.seen.values() for row in each]
        return sorted(row[0] for row in (versions if self.kind == "scd2" else self.rows.values()) if row[0] < 0)

    def versions(self) -> list[tuple[int, int, bool]]:
        return [(key, row[0], row == versions[-1]) for key, versions in sorted(self.seen.items()) for row in versions]


def amounts(rows: dict) -> list[tuple[int, int]]:
    return sorted((key, row[0]) for key, row in rows.items())


@pytest.mark.parametrize(("bench", "kind"), CASES, indirect=["bench"])
def test_a_replay_leaves_what_would_have_been(bench, spark, kind):
    chance, history = random.Random(kind), History(bench=bench, kind=kind)
    bench.shop.sql("delete from orders")
    bench.stream([BAD], **KINDS[kind])
    for load in range(3):
        history.change(chance, load)
        outcome = bench.run(spark)
        history.loaded()
        assert (outcome.error, outcome.verified) == (None, True)
        assert bench.waiting == history.waiting()
        if kind != "scd2":
            assert [(row["id"], row["amount"]) for row in bench.live] == amounts(history.good)
    assert bench.verified(spark)
    bench.stream([ANY], **KINDS[kind])
    done = bench.replay(spark)
    assert (done.rows, done.superseded, done.waiting) == (len(history.waiting()), 0, 0)
    if kind == "scd2":
        found = sorted(bench.rows("orders"), key=lambda row: (row["id"], row["valid_from"]))
        assert [(row["id"], row["amount"], row["is_current"]) for row in found] == history.versions()
    else:
        assert [(row["id"], row["amount"]) for row in bench.live] == amounts(history.rows)
    assert bench.verified(spark)
