"""Codes and retriability against the contract's table, typed here apart from the product (CONTRACT §4)."""

from __future__ import annotations

import re

import pytest

from journal.errors import CODES, EngramError

RETRIABLE = """
RATE_LIMITED DEADLINE_EXCEEDED CANCELLED STORE_UNAVAILABLE FENCE_LOST CURSOR_GAP POLICY_UNAVAILABLE POLICY_STALE
PROJECTION_STALE RANKING_UNAVAILABLE MUTATION_OUTCOME_UNKNOWN
""".split()
FINAL = """
INVALID_SCHEMA INVALID_DIGEST UNAUTHORIZED AUTHORIZATION_EXPIRED AUTHORIZATION_REVOKED NOT_FOUND DIGEST_CONFLICT
ILLEGAL_TRANSITION ALREADY_TERMINAL gate_failed STALE_PAGE RESULT_TOO_LARGE PROJECTION_OVERSIZED CAPABILITY_UNAVAILABLE
JOURNAL_CORRUPT BLOB_MISSING REGISTRY_VERSION_UNAVAILABLE BACKUP_INVALID RESTORE_REFUSED MIGRATION_LEDGER_INVALID
""".split()


def test_every_code_has_one_class_and_there_is_no_other():
    assert sorted(CODES) == sorted(RETRIABLE + FINAL)
    assert len(set(CODES.values())) == len(RETRIABLE) + len(FINAL) == 31


@pytest.mark.parametrize("code", RETRIABLE + FINAL)
def test_retriability(code):
    assert CODES[code].retriable is (code in RETRIABLE)


@pytest.mark.parametrize("code", RETRIABLE + FINAL)
def test_the_message_is_one_constant_line(code):
    message = CODES[code].message()
    assert re.fullmatch(r"[A-Z][A-Za-z', ;-]+\.", message), message
    assert CODES[code]("some detail").message() == message


def test_messages_differ():
    assert len({error.message() for error in CODES.values()}) == len(CODES)


@pytest.mark.parametrize("code", RETRIABLE + FINAL)
def test_the_detail_stays_out_of_the_message(code):
    error = CODES[code]("detail for the log")
    assert error.detail == "detail for the log"
    assert "detail" not in error.message()
    assert isinstance(error, EngramError)


def test_without_a_detail_the_log_sees_the_message():
    error = CODES["NOT_FOUND"]()
    assert str(error) == error.message()
    assert error.detail == ""
