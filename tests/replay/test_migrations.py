"""The ledger of a migration: every input exactly once."""

from __future__ import annotations

import pytest

from journal.errors import MigrationLedgerInvalid, StoreUnavailable
from replay.migrations import Settled, check, input_digest, read, write

ONE, TWO, THREE = (input_digest(text) for text in (b"one", b"two", b"three"))
MADE_AT = "2026-01-02T03:04:05.678Z"
MIGRATED = Settled(ONE, "migrated", result="candidate_1")
EXCLUDED = Settled(TWO, "excluded", reason="reason:empty")


def test_each_input_once_is_a_ledger(tmp_path):
    write(tmp_path / "ledger", "mem0", MADE_AT, [TWO, ONE], [MIGRATED, EXCLUDED])
    beginning, settled = read(tmp_path / "ledger")
    assert (beginning.kind, beginning.made_at) == ("mem0", MADE_AT)
    assert settled == [MIGRATED, EXCLUDED]
    check([ONE, TWO], settled)


def test_no_input_is_a_ledger_too(tmp_path):
    write(tmp_path / "ledger", "jsonl", MADE_AT, [], [])
    assert read(tmp_path / "ledger")[1] == []


def test_equal_inputs_are_migrated_once_and_excluded_else():
    check([ONE, ONE], [MIGRATED, Settled(ONE, "excluded", reason="reason:repeated")])


@pytest.mark.parametrize(
    ("inputs", "settled"),
    [
        ([ONE, TWO, THREE], [MIGRATED, EXCLUDED]),
        ([ONE], [MIGRATED, EXCLUDED]),
        ([ONE, TWO], [MIGRATED, EXCLUDED, EXCLUDED]),
        ([ONE, TWO], [MIGRATED, Settled(ONE, "excluded", reason="reason:x"), EXCLUDED]),
        ([ONE, ONE], [MIGRATED, MIGRATED]),
        ([ONE, ONE], [MIGRATED]),
        ([ONE], [Settled(ONE, "migrated")]),
        ([ONE], [Settled(ONE, "migrated", result="candidate_1", reason="reason:x")]),
        ([ONE], [Settled(ONE, "excluded")]),
        ([ONE], [Settled(ONE, "excluded", result="candidate_1", reason="reason:x")]),
    ],
)  # fmt: skip
def test_anything_else_is_none(tmp_path, inputs, settled):
    with pytest.raises(MigrationLedgerInvalid):
        write(tmp_path / "ledger", "mem0", MADE_AT, inputs, settled)
    assert list(tmp_path.iterdir()) == []


def test_every_byte_counts(tmp_path):
    path = tmp_path / "ledger"
    write(path, "mem0", MADE_AT, [ONE, TWO], [MIGRATED, EXCLUDED])
    raw = path.read_bytes()
    for at in range(len(raw)):
        path.write_bytes(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :])
        with pytest.raises(MigrationLedgerInvalid):
            read(path)
        path.write_bytes(raw[:at])
        with pytest.raises(MigrationLedgerInvalid):
            read(path)


def test_nothing_is_overwritten_and_nothing_is_read_from_nowhere(tmp_path):
    write(tmp_path / "ledger", "mem0", MADE_AT, [], [])
    with pytest.raises(FileExistsError):
        write(tmp_path / "ledger", "mem0", MADE_AT, [], [])
    with pytest.raises(StoreUnavailable):
        read(tmp_path / "none")
