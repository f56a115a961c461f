"""The export for people: nothing that was said can leave its fence, and nothing of it is lost."""

from __future__ import annotations

import re

import pytest

from journal.events import EventType
from tests.tools.conversation.exchanging import markdown
from tests.tools.conversation.talks import TWO, speaker
from tools.conversation.exchange.export_markdown import fenced, inline

HOSTILE = [
    "```\n# a heading\n```", "````\n```", "`" * 40, "~~~\nx", "</pre><script>alert(1)</script>", "\n\n", " \n",
    "```text", "a\r```\rb", "a\u2028```\u2028b", "text without end ```", "\t```", "한글 \U0001f642\n> quote\n- list",
    "[a](b)",
]  # fmt: skip


def fences(text):
    """Return the texts between fences, read as CommonMark reads them: a closing fence is at least as long."""
    found, lines, at = [], re.split(r"\n", text), 0
    while at < len(lines):
        opened = re.fullmatch(r"(`{3,})text", lines[at])
        if opened is None:
            assert not lines[at].lstrip().startswith(("```", "~~~")), lines[at]
            at += 1
            continue
        begun = at + 1
        at = begun
        end = re.compile(r" {0,3}" + opened[1] + r"`*[ \t]*")
        while not any(map(end.fullmatch, lines[at].split("\r"))):
            at += 1
        found.append("\n".join(lines[begun:at]))
        at += 1
    return found


@pytest.fixture
def one(world):
    return speaker(world)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_text_stays_in_its_fence_whole(text):
    assert fences("before\n" + fenced(text) + "# after\n") == [text]


def test_every_text_is_there_in_time_order(one):
    one.tell(HOSTILE, at=list(range(len(HOSTILE))))
    assert fences(markdown(one)) == HOSTILE


def test_profile_pinned_days_and_sessions(world, one):
    one.profile("core ``` profile", "other", "이름")
    one.project("engram", "# what it is")
    one.alias("old", "engram")
    late = 1_755_356_399_000  # 2025-08-16 23:59:59 in Seoul
    ids = one.tell(["before midnight", "after"], at=[late, late + 2_000], session_id="s_1", cwd="/srv/*x*")
    one.tell(["elsewhere"], at=[late + 3_000], session_id="s2")
    one.move(EventType.MESSAGE_PIN, ids[1])
    one.move(EventType.MESSAGE_ARCHIVE, ids[0])
    one.tag(ids[0], "engram", ["a", "b_c"])
    one.know("update", memory_id=ids[1], content="after all")
    speaker(world, TWO).save("two's words")
    text = markdown(one)
    headings = [line for line in text.split("\n") if line.startswith("#")]
    assert headings == [
        "# Conversation memory", "## Profile", "### Name", "### Core", "### Other", "## Projects", "### engram",
        "# what it is", "### old, stands for engram", "## Pinned", "## 2025-08-16",
        r"### codex, in \/srv\/\*x\*, session s\_1", "## 2025-08-17", r"### codex, in \/srv\/\*x\*, session s\_1",
        "### codex, session s2",
    ]  # fmt: skip
    assert fences(text) == [
        "이름", "core ``` profile", "other", "# what it is", "after all", "after", "before midnight", "after all",
        "after", "elsewhere",
    ]  # fmt: skip
    assert "23:59:59, **user**, archived, project engram, tags a; b\\_c\n" in text
    assert "00:00:01, **user**, pinned\n" in text
    assert "two's words" not in text


def test_an_empty_memory_is_a_document(one):
    assert markdown(one) == "# Conversation memory\n\nExported 2025-08-16 22:14:56 +0900.\n"


def test_the_first_and_last_instants_can_be_told(one):
    one.tell(["first", "last"], at=[-62_135_596_800_000, 253_402_300_799_999])
    assert [line for line in markdown(one).split("\n") if line.startswith("## ")] == ["## 0001-01-01", "## 9999-12-31"]


@pytest.mark.parametrize("name", ["a\n# b", "`a`", "[a](b)", "<b>", "\u2028# x", "**a**", "a|b", "\\`"])
def test_a_name_is_no_markdown(name):
    shown = inline(name)
    assert len(shown.splitlines()) == 1
    assert re.sub(r"\\(.)", r"\1", shown) == " ".join(name.split())
    assert not re.search(r"(?<!\\)(?:\\\\)*[`*_\[\]<>#|]", shown.replace("\\\\", ""))
