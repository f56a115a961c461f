"""Texts within texts: found in every script, as far as they look the same."""

from __future__ import annotations

import pytest

from journal.identity import normalised
from tests.projections.messages.conversations import ME, NOON, holding, small_limits

SAID = [
    "오늘 회의에서 배포를 미루기로 했다",
    "来週の東京出張を確認しました。",
    "カタカナとﾊﾝｶｸ",
    "Срок сдачи перенесли на пятницу",
    "تم تأجيل الاجتماع",
    "เลื่อนการประชุม",
    "हम कल मिलेंगे",
    "👩‍💻👍🏽 done 🇰🇷 1️⃣",
    "k8s에서 Pod가 OOMKilled\n\t 됐다 (exit=137)",
    "Straße und cafe\u0301",
    "%$#@!~ <div class='x'> C:\\temp",
    "𠮷野家で𩸽",
]


@pytest.fixture
def said(conversation, index):
    for text in SAID:
        conversation.say(text)
    index.fold_in_batches(conversation.events, [5])
    return conversation


@pytest.mark.parametrize("number", range(len(SAID)))
def test_every_piece_of_every_text_finds_it(said, index, number):
    text = normalised(SAID[number])
    for start in range(len(text)):
        for end in range(start + 1, min(len(text), start + 6) + 1):
            if text[start:end].strip():
                assert number + 1 in index.containing(text[start:end])


@pytest.mark.parametrize(
    ("piece", "number"),
    [
        ("회의에", 0),
        ("루", 0),
        ("東京出", 1),
        ("ハンカク", 2),
        ("ПЯТНИЦУ", 3),
        ("الاجتماع", 4),
        ("การประชุม", 5),
        ("मिलेंगे", 6),
        ("👩‍💻", 7),
        ("👍🏽", 7),
        ("👍", 7),
        ("🇰🇷", 7),
        ("1️⃣", 7),
        ("oomkilled 됐다", 8),
        ("EXIT=１３７", 8),
        ("STRASSE", 9),
        ("café", 9),
        ("C:\\TEMP", 10),
        ("𠮷", 11),
        ("피씨", None),
        ("미루기로 안", None),
        ("東大", None),
    ],
)
def test_what_looks_the_same_is_found_and_little_else(said, index, piece, number):
    expected = [] if number is None else [number + 1]
    found = index.containing(piece)
    assert [cursor for cursor in found if cursor in expected] == expected == holding(said, piece)
    assert len(found) <= len(expected) + 1  # under another key others would be taken along


@pytest.mark.parametrize("text", ["", " ", "\n\t", "\u200b", "\ufe0f\u200d"])
def test_what_normalises_to_nothing_finds_nothing(said, index, text):
    assert index.containing(text) == []


def test_decomposed_text_finds_composed(said, index):
    assert index.containing("\u1112\u116c\u110b\u1174") == [1]  # jamo of the second word


def test_a_text_of_nothing_is_a_message_all_the_same(conversation, index):
    empty = conversation.say("\u200b")
    index.fold(conversation.events)
    assert index.containing("\u200b") == []
    conversation.revise(empty, "알림")
    index.fold(conversation.events[1:])
    assert index.containing("알") == [empty.cursor]
    conversation.revise(empty, " ")
    index.fold(conversation.events[2:])
    assert index.containing("알") == []
    assert index.search("user") == [], "a role is no word of a message"


def test_the_newest_come_first(conversation, index):
    for number in (5, 9, 1, 9, 3):
        conversation.say("알림", created_at=NOON + number)
    index.fold(conversation.events)
    assert index.containing("알림") == [4, 2, 1, 5, 3]


def test_a_long_query_is_found_and_one_that_differs_is_not(conversation, index):
    text = "배포 절차를 다시 정리한다. " * 200
    said = conversation.say(text)
    index.fold(conversation.events)
    assert index.containing(text) == [said.cursor]
    assert index.containing("zqxj" + text[:40]) == []


def test_a_very_long_text_is_found_by_every_piece(conversation, index):
    text = "".join(chr(0xAC00 + number * 7919 % 11_172) for number in range(60_000))
    said = conversation.say(text)
    index.fold(conversation.events)
    for start in range(0, 60_000, 9_973):
        assert index.containing(text[start : start + 12]) == [said.cursor]
    assert len(index.digest()) == 32


def test_many_texts_are_found_in_blocks_of_every_level(conversation, index):
    with small_limits():
        for number in range(700):
            conversation.say(f"n{number:03d} {'서버 배포' * (number % 3)}")
        for message in conversation.messages[::9]:
            conversation.revise(message, f"새로 {message.cursor}")
        for message in conversation.messages[4::31]:
            conversation.erase(message)
        index.fold_in_batches(conversation.events, [50])
        for number in range(0, 700, 13):
            found = index.containing(f"n{number:03d}")
            holds = holding(conversation, f"n{number:03d}")
            assert [cursor for cursor in found if cursor in holds] == holds
        assert set(index.containing("새로")) >= set(holding(conversation, "새로"))
        there = {message.cursor for message in conversation.in_force({ME})}
        for piece in ("서버", "n", "새로", "0"):
            found = index.containing(piece)
            assert len(found) == len(set(found))
            assert set(found) <= there
