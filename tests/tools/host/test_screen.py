"""The secret screen: planted secrets are found, ordinary paragraphs are let through, and nothing leaks."""

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from journal import limits
from tests.tools.host.ordinary import by_hand
from tests.tools.host.planted import Maker, all_planted
from tools.host.screen import Finding, _windows, detect, screen

PROJECT = Path(__file__).parents[3]
DATA_DIR = Path(os.environ.get("ENGRAM_DATA_DIR", "/nonexistent"))  # read before the tests' own environment stands
SEEDS = (20261129, 7, 4711)
# Modules that speak of passwords, tokens, keys, headers and cookies more than most.
MODULES = (
    "argparse asyncio.sslproto base64 configparser ftplib getpass hashlib hmac http.client http.cookiejar imaplib "
    "logging.handlers netrc poplib secrets smtplib socketserver ssl telnetlib tokenize urllib.parse urllib.request uuid"
).split()


@pytest.mark.parametrize("seed", SEEDS)
def test_every_planted_secret_is_found(seed):
    planted = all_planted(seed)
    assert len(planted) >= 130
    assert [name for name, text in planted.items() if not detect(text)] == []


@pytest.mark.parametrize("seed", SEEDS)
def test_every_planted_secret_is_found_inside_a_paragraph(seed):
    before, after = "We met on Monday and agreed on the following.\n\n", "\n\n그리고 다음 주에 다시 보기로 했다.\n"
    assert [name for name, text in all_planted(seed).items() if not detect(before + text + after)] == []


def paragraphs(text: str) -> list[str]:
    return [part for part in re.split(r"\n\s*\n", text) if len(part.strip()) >= 40]


def documents() -> Iterator[str]:
    for path in (*PROJECT.glob("*.md"), *(PROJECT / "docs").rglob("*.md")):
        yield from paragraphs(path.read_text(encoding="utf-8"))


def library_code() -> Iterator[str]:
    for name in MODULES:
        path = Path(os.__file__).parent / (name.replace(".", "/") + ".py")
        source = path.read_text(encoding="utf-8")
        yield from paragraphs(source)
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                yield from paragraphs(ast.get_docstring(node) or "")


def data_sets() -> Iterator[str]:
    """Conversations and encyclopedia texts, where somebody keeps them."""
    talks = DATA_DIR / "locomo-first5.json"
    if talks.exists():
        for talk in json.loads(talks.read_text(encoding="utf-8")):
            for turns in talk["conversation"].values():
                if isinstance(turns, list):
                    yield from (turn["text"] for turn in turns)
    wiki = DATA_DIR / "KorQuAD_v1.0_dev.json"
    if wiki.exists():
        for article in json.loads(wiki.read_text(encoding="utf-8"))["data"]:
            yield from (part["context"] for part in article["paragraphs"])


def test_ordinary_paragraphs_are_let_through(capsys):
    sources = {
        "written by hand": by_hand(),
        "documents of the project": list(documents()),
        "code and docstrings of the standard library": list(library_code()),
        "talks and articles": list(data_sets()),
    }
    fired = {name: [text for text in texts if detect(text)] for name, texts in sources.items()}
    total, wrong = sum(map(len, sources.values())), sum(map(len, fired.values()))
    with capsys.disabled():
        counts = ", ".join(f"{len(fired[name])} of {len(texts)} {name}" for name, texts in sources.items())
        sys.stdout.write(f"\nsecret screen: fired on {wrong} of {total} ordinary paragraphs: {counts}\n")
    assert total >= 200
    assert len(sources["written by hand"]) >= 150
    assert fired["written by hand"] == []
    assert wrong <= total / 100


def payload(**texts: str) -> dict[str, object]:
    return {
        "schema_version": 2,
        "purpose_ref": texts.get("purpose", "purpose:work"),
        "valid_time": {"t": 1},
        "components": [
            {"component_id": "component:1", "kind": "context", "text": "nothing", "citation_ids": ["citation:1"]},
            {
                "component_id": texts.get("component_id", "component:2"),
                "kind": "decision",
                "text": texts.get("text", "nothing"),
                "citation_ids": ["citation:1"],
            },
        ],
        "citations": [
            {
                "citation_id": "citation:1",
                "source_ref": texts.get("source", "source:1"),
                "locator": {"scheme": "line", "value": texts.get("locator", "1-2")},
                "content_digest": "sha256:" + "0f1e2d3c" * 8,
            }
        ],
    }


def evidence(attestation: str = "seen") -> dict[str, object]:
    return {
        "evidence_ref": "evidence:1",
        "evidence_digest": "sha256:" + "0f1e2d3c" * 8,
        "citation_ids": ["citation:1"],
        "attestation": attestation,
    }


def secret() -> str:
    return "password: " + Maker(1).word()


@pytest.mark.parametrize(
    ("place", "path"),
    [
        ("text", "payload.components[1].text"),
        ("component_id", "payload.components[1].component_id"),
        ("purpose", "payload.purpose_ref"),
        ("source", "payload.citations[0].source_ref"),
        ("locator", "payload.citations[0].locator.value"),
    ],
)
def test_a_secret_is_found_wherever_it_stands_in_a_payload(place, path):
    assert {finding.path for finding in screen(payload(**{place: secret()}), evidence())} == {path}


def test_a_secret_in_an_attestation_is_found():
    found = screen(payload(), evidence(attestation=secret()))
    assert {finding.path for finding in found} == {"evidence.attestation"}


def test_a_clean_payload_gives_nothing():
    assert screen(payload(), evidence()) == ()
    assert screen(payload()) == ()


def test_a_finding_names_detector_and_place_and_holds_nothing_of_the_secret():
    found = screen(payload(text=secret(), source="https://a:" + Maker(2).word() + "@b.example/"), evidence())
    assert Finding("password-assigned", "payload.components[1].text") in found
    assert Finding("url-with-password", "payload.citations[0].source_ref") in found
    assert len(set(found)) == len(found)
    for word in (Maker(1).word(), Maker(2).word()):
        assert word not in repr(found)


def test_a_secret_is_found_at_any_place_of_a_long_text():
    token = "the api key is " + Maker(3).draw(40)
    filler = "평범한 문장과 plain words alternate here. "
    size = limits.SCREEN_WINDOW_CHARACTERS
    text = filler * (3 * size // len(filler))
    for at in (*range(size - 600, size + 100, 37), 2 * size, len(text)):
        assert "secret-said" in detect(text[:at] + " " + token + " " + text[at:])


def test_a_private_key_is_found_on_one_line_without_a_space():
    key = Maker(4).pem("PRIV" + "ATE KEY").replace("\n", "\\n")
    assert "private-key" in detect("x" * (limits.SCREEN_WINDOW_CHARACTERS - 10) + key)


@settings(max_examples=60)
@given(st.lists(st.sampled_from(["", "", "", " ", "\n", "긴 "]), max_size=1_500))
def test_windows_cover_a_text_and_stay_small(separators):
    text = "".join(f"{number:05d}{separator}" for number, separator in enumerate(separators))
    windows = list(_windows(text))
    assert all(len(window) <= limits.SCREEN_WINDOW_CHARACTERS for window in windows)
    covered = 0
    for window in windows:
        start = text.index(window)  # the numbers make every long enough piece unique
        assert start <= covered
        covered = start + len(window)
    assert covered == len(text)


def test_the_library_is_imported_at_the_first_screening_and_its_settings_stay_as_they_were():
    script = """
import sys
from tools.host import screen
assert not any(name.startswith("detect_secrets") for name in sys.modules)
screen.detect("an ordinary sentence")
from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
from detect_secrets.settings import get_settings
assert not get_settings().plugins
"""
    subprocess.run([sys.executable, "-c", script], check=True, cwd=PROJECT, timeout=60)


@pytest.mark.parametrize("unseen", ["\u200b", "\u034f", "\ufe0f", "\u3164", "\u00ad", "\U000e0041"])
def test_a_token_cut_by_what_nobody_sees_is_found(unseen):
    token = "gh" + unseen + "p_" + "A1b2C3d4E5f6" * 3
    assert detect(token)
