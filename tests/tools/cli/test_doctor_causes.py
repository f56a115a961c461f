"""One cause, one finding: what follows from lost or broken keys is named with it and not beside it."""

from __future__ import annotations

import shutil

import pytest

from tests.tools.cli.examined import examined
from tools.cli.checkup.causes import joined
from tools.cli.checkup.finding import fault, note, ok, warning
from tools.cli.checkup.generations import SERVED

HERE = "default / default"


def broken(subject: str = HERE):
    return fault("KEYRING_BROKEN", subject, "its key files (tag.keyring) are broken", "restore")


@pytest.mark.parametrize("how", ["broken", "a bit", "gone"])
def test_a_broken_keyring_is_one_finding_whatever_else_stands_still(desk, how):
    desk.captured("One that is kept.")
    desk.ok("projections", "rebuild", "--all")
    desk.ok("projections", "invalidate", "--all")
    assert set(examined(desk)) >= {"PROJECTION_OUT_OF_FORCE"}
    (keyring,) = (desk.store / "keys").glob("*.keyring")
    if how == "gone":
        keyring.unlink()
    else:
        raw = bytearray(keyring.read_bytes())
        raw[len(raw) // 2] ^= 1
        keyring.write_bytes(bytes(raw) if how == "a bit" else b"broken")
    ended = desk.run("doctor", "--json")
    worse = [each for each in ended.json["checks"] if each["severity"] in ("warning", "fault")]
    (finding,) = [each for each in worse if "KEY" in each["code"]]
    assert finding["code"] == ("KEYS_MISSING" if how == "gone" else "KEYRING_BROKEN")
    assert finding["subject"] == HERE
    assert f"from it follows PROJECTION_OUT_OF_FORCE ({len(SERVED)} times)" in finding["detail"]
    assert not [each for each in ended.json["checks"] if each["code"].startswith("PROJECTION_")]
    assert len(ended.json["checks"]) > 10


def test_keys_that_are_all_gone_are_one_finding(desk):
    desk.captured("One that is kept.")
    shutil.rmtree(desk.store / "keys")
    found = examined(desk)
    assert "KEYS_MISSING" not in found
    assert found["STORE_INCOMPLETE"]["detail"].endswith("from it follows KEYS_MISSING")


def test_what_is_of_another_scope_or_follows_from_nothing_stands_for_itself():
    elsewhere = note("PROJECTION_BEHIND", "current of default / other", "is behind", "search")
    named_alike = note("PROJECTION_BEHIND", "current of a default / default2", "is behind", "search")
    waits, well = note("CANDIDATES_WAIT", HERE, "1 waits", "list"), ok("JOURNAL_MAP", HERE, "has room")
    findings = [elsewhere, named_alike, broken(), waits, well]
    assert joined(findings) == findings


def test_the_same_told_by_the_file_is_not_told_twice():
    by_file = fault("KEYRING_BROKEN", "/store/keys/tag.keyring", "broken", "restore")
    of_nobody = fault("KEYRING_BROKEN", "/store/keys/other.keyring", "broken", "restore")
    assert joined([by_file, of_nobody, broken()]) == [of_nobody, broken()]


def test_what_follows_is_counted_by_its_codes():
    behind = [note("PROJECTION_BEHIND", f"{name} of {HERE}", "is behind", "search") for name in ("current", "lexical")]
    pending = warning("DESTRUCTIONS_PENDING", HERE, "1 key", "serve")
    (told,) = joined([behind[0], broken(), pending, behind[1]])
    assert told.detail.endswith("; from it follows PROJECTION_BEHIND (2 times), DESTRUCTIONS_PENDING")
    assert told.severity.value == "fault"
