"""The four conversation tools' arguments: closed shapes, bounds, and which fields go together (CONVERSATION §3).

Each ``*_arguments`` function takes the arguments as they came from the strict reader (or from a Python caller) and
gives a struct, or raises InvalidSchema. What was said is kept as it was sent; only names that are compared later
(``subagent_role``, tags) are brought to one form.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from journal import limits
from tools.closed_arguments import Closed, converted, require, text_within, within

_MESSAGE_ID: Final = re.compile(r"message_[0-9a-f]{32}", re.ASCII)

# (action, target) -> the fields that it demands, those that it may have; every other one is refused
_FIELDS_OF_KNOWLEDGE: Final[dict[tuple[str, str], tuple[set[str], set[str]]]] = {
    ("add", "memory"): ({"content"}, set()),
    ("update", "memory"): ({"content", "memory_id"}, set()),
    ("remove", "memory"): ({"memory_id"}, {"erase"}),
    ("add", "sub_profile"): ({"content"}, set()),
    ("update", "sub_profile"): ({"content"}, set()),
    ("remove", "sub_profile"): (set(), set()),
}

# Letters and marks that show nothing, so that two names that look alike would not be one: the grapheme joiner,
# Hangul fillers, Khmer inherent vowels, Mongolian and general variation selectors.
_INVISIBLE: Final = frozenset(
    map(chr, (0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x3164, 0xFFA0))
) | frozenset(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))


class SaveMessageArguments(Closed, frozen=True):
    """Arguments of save_message. ``agent_model`` is absent for role user, whoever said it."""

    role: Literal["user", "assistant"]
    message: str
    agent_model: str | UnsetType = UNSET
    agent_platform: str | UnsetType = UNSET
    subagent: bool = False
    subagent_model: str | UnsetType = UNSET
    subagent_role: str | UnsetType = UNSET


class SearchMemoryArguments(Closed, frozen=True):
    """Arguments of search_memory; ``p_tag``, ``date_range`` and ``agent_platform`` are as sent."""

    query: str | UnsetType = UNSET
    p_tag: str | UnsetType = UNSET
    date_range: str | UnsetType = UNSET
    role: Literal["user", "assistant"] | UnsetType = UNSET
    agent_platform: str | UnsetType = UNSET
    device_scope: Literal["global", "local"] = "global"
    limit: int = limits.SEARCH_LIMIT_DEFAULT
    include_archived: bool = False


class ManageKnowledgeArguments(Closed, frozen=True):
    """Arguments of manage_knowledge; which fields are there follows from action and target."""

    action: Literal["add", "update", "remove"]
    target: Literal["memory", "sub_profile"]
    content: str | UnsetType = UNSET
    memory_id: str | UnsetType = UNSET
    erase: bool | UnsetType = UNSET


class MemoryStartupArguments(Closed, frozen=True):
    """Arguments of memory_startup."""

    short_term_days: int = limits.SHORT_TERM_DAYS_DEFAULT
    agent_platform_filter: bool = True


def save_message_arguments(raw: dict[str, Any]) -> SaveMessageArguments:
    """Return what is to be saved, the subagent's role in its one form; InvalidSchema where it does not fit."""
    arguments = converted(raw, SaveMessageArguments)
    text_within(arguments.message, limits.MESSAGE_MAX_BYTES, "message")
    for name in ("agent_model", "agent_platform", "subagent_model", "subagent_role"):
        _optional_text(getattr(arguments, name), limits.REF_MAX_BYTES, name)
    told = {arguments.subagent, arguments.subagent_model is not UNSET, arguments.subagent_role is not UNSET}
    require(len(told) == 1, "a subagent's model and role come with it, and never without it")
    if arguments.role == "user":  # no model said it; the caller's habit of sending its own is no mistake
        arguments = msgspec.structs.replace(arguments, agent_model=UNSET)
    if arguments.subagent_role is not UNSET:
        role = _lowered(arguments.subagent_role)
        text_within(role, limits.REF_MAX_BYTES, "subagent_role")  # lower case can be longer, and trimmed can be nothing
        arguments = msgspec.structs.replace(arguments, subagent_role=role)
    return arguments


def search_memory_arguments(raw: dict[str, Any]) -> SearchMemoryArguments:
    """Return the arguments of a search; InvalidSchema where they do not fit.

    A ``p_tag`` need not be a possible name here: one that nobody can have made is unknown, which is an answer.
    """
    arguments = converted(raw, SearchMemoryArguments)
    _optional_text(arguments.query, limits.QUERY_MAX_BYTES, "query")
    for name in ("p_tag", "date_range", "agent_platform"):
        _optional_text(getattr(arguments, name), limits.REF_MAX_BYTES, name)
    within(arguments.limit, 1, limits.SEARCH_LIMIT_MAX, "limit")
    return arguments


def manage_knowledge_arguments(raw: dict[str, Any]) -> ManageKnowledgeArguments:
    """Return what is to be done with a memory or the profile; InvalidSchema where the fields do not fit the action."""
    arguments = converted(raw, ManageKnowledgeArguments)
    demanded, allowed = _FIELDS_OF_KNOWLEDGE[arguments.action, arguments.target]
    sent = {name for name in ("content", "memory_id", "erase") if getattr(arguments, name) is not UNSET}
    require(demanded <= sent, "a field that the action needs is absent")
    require(sent <= demanded | allowed, "a field does not belong to the action")
    if arguments.memory_id is not UNSET:
        require(_MESSAGE_ID.fullmatch(arguments.memory_id) is not None, "memory_id is malformed")
    if arguments.content is not UNSET:
        text_within(arguments.content, limits.MESSAGE_MAX_BYTES, "content")
        if arguments.target == "sub_profile":
            _profile_text(arguments.content)
    return arguments


def memory_startup_arguments(
    raw: dict[str, Any], *, short_term_days: int = limits.SHORT_TERM_DAYS_DEFAULT
) -> MemoryStartupArguments:
    """Return the arguments of a brief; InvalidSchema where they do not fit.

    ``short_term_days`` is the host's own default for callers that do not say.
    """
    arguments = converted(raw, MemoryStartupArguments)
    if "short_term_days" not in raw:
        arguments = msgspec.structs.replace(arguments, short_term_days=short_term_days)
    within(arguments.short_term_days, 1, limits.SHORT_TERM_DAYS_MAX, "short_term_days")
    return arguments


def project_tag_name(text: str) -> str:
    """Return a project tag's name in its one form: trimmed, NFC, lower case.

    A slug of 1 to PROJECT_TAG_MAX_CHARACTERS: letters of any script with their marks, decimal digits, and inside it
    ``-``, ``_`` and ``.``. No ``/``, so that a name is always one segment of a path or an address, and no leading or
    trailing sign, so that it is neither an option nor a hidden file.

    Raises:
        InvalidSchema: The text is no such name.
    """
    name = _lowered(text)
    within(len(name), 1, limits.PROJECT_TAG_MAX_CHARACTERS, "a project tag's name", "characters")
    letters = "letters, digits and, inside it, - _ . alone"
    require(
        name[0] not in "-_." and name[-1] not in "-_.", f"a project tag's name begins and ends with no sign: {letters}"
    )
    require(unicodedata.category(name[0])[0] != "M", "a project tag's name begins with a mark")
    require(all(_in_slug(char) for char in name), f"a project tag's name holds another character: {letters}")
    return name


def keyword(text: str) -> str:
    """Return a keyword (a d_tag) in its one form: trimmed, NFC, lower case, 1 to KEYWORD_MAX_CHARACTERS on one line.

    Raises:
        InvalidSchema: The text is longer, shows nothing, or holds a control character, a line break or a surrogate.
    """
    word = _lowered(text)
    within(len(word), 1, limits.KEYWORD_MAX_CHARACTERS, "a keyword", "characters")
    categories = [unicodedata.category(char) for char in word]
    require(not {"Cc", "Cs", "Zl", "Zp"}.intersection(categories), "a keyword holds a control character")
    visible = any(kind[0] in "LNPS" and char not in _INVISIBLE for kind, char in zip(categories, word, strict=True))
    require(visible, "a keyword shows nothing")
    return word


# --- single values --------------------------------------------------------------------------------


def _optional_text(text: str | UnsetType, most_bytes: int, name: str) -> None:
    if text is not UNSET:
        text_within(text, most_bytes, name)


def _profile_text(content: str) -> None:
    """What is added to a profile or becomes it: counted in characters, as the brief is; several lines are as good."""
    within(len(content), 1, limits.PROFILE_SUB_MAX_CHARACTERS, "content", "characters")
    require(bool(content.strip()), "content is blank")


def _lowered(text: str) -> str:
    """The form in which names are compared. Composed again at the end: lower case can take a letter apart."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text.strip()).lower())


def _in_slug(char: str) -> bool:
    kind = unicodedata.category(char)
    # Lu and Lt are what lower-casing left: letters that have no small form, and would look like those that have.
    letter = kind in {"Ll", "Lm", "Lo", "Mn", "Mc", "Nd"} and char not in _INVISIBLE
    return letter or char in "-_."
