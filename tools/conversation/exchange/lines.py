"""The lines of an export, version 1: a header, then profile revisions, project tags, aliases, messages in time order.

Each line is one JSON object whose ``kind`` says what it is. A field that says nothing is absent, never null, and one
that this version does not know is refused. Instants are UTC with milliseconds, as everywhere else.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from journal import limits
from journal.clock import parse_instant
from journal.errors import InvalidSchema
from journal.messages import PREFIX, MessageState
from tools.conversation.arguments import keyword, project_tag_name
from tools.conversation.exchange.reading import NumberedLine, WrongLine
from tools.server.decoding import Flaw, decode

VERSION: Final = 1


class _Line(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="kind"
):
    """A closed object."""


class HeaderLine(_Line, frozen=True, kw_only=True, tag="engram-export"):
    """The first line."""

    version: int
    exported_at: str


class ProfileLine(_Line, frozen=True, kw_only=True, tag="profile"):
    """One revision of the profile, whole; the oldest comes first."""

    user_name: str
    core_profile: str
    sub_profile: str
    action: str
    by: str
    recorded_at: str


class ProjectTagLine(_Line, frozen=True, kw_only=True, tag="project_tag"):
    """A project tag and what it means; an empty description says nothing."""

    name: str
    description: str


class ProjectAliasLine(_Line, frozen=True, kw_only=True, tag="project_alias"):
    """A project tag that stands for another."""

    name: str
    alias_of: str


class MessageTags(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The tags that a message was given, none among them too."""

    p_tag: str | UnsetType = UNSET
    d_tags: tuple[str, ...] | UnsetType = UNSET


class MessageLine(_Line, frozen=True, kw_only=True, tag="message"):
    """A message: its newest text, the earlier ones (the oldest first), and everything that is known of it.

    ``id`` is that of the store it comes from. It or ``external_id`` is there.
    """

    id: str | UnsetType = UNSET
    created_at: str
    state: str  # active, pinned or archived
    role: Literal["user", "assistant"]
    message: str
    earlier: tuple[str, ...] | UnsetType = UNSET
    tags: MessageTags | UnsetType = UNSET
    agent_platform: str
    client_name: str | UnsetType = UNSET
    agent_key: str | UnsetType = UNSET
    agent_model: str | UnsetType = UNSET
    subagent: bool | UnsetType = UNSET
    subagent_model: str | UnsetType = UNSET
    subagent_role: str | UnsetType = UNSET
    device_name: str | UnsetType = UNSET
    session_id: str | UnsetType = UNSET
    cwd: str | UnsetType = UNSET
    external_id: str | UnsetType = UNSET


SAID: Final = (
    "agent_platform", "client_name", "agent_key", "agent_model", "subagent", "subagent_model", "subagent_role",
    "device_name", "session_id", "cwd", "external_id",
)  # fmt: skip
"""The fields of a message's line that stand in its content under the same name, beside ``message`` and ``role``."""

Line = HeaderLine | ProfileLine | ProjectTagLine | ProjectAliasLine | MessageLine
_PLACES: Final = frozenset(
    name
    for shape in (HeaderLine, ProfileLine, ProjectTagLine, ProjectAliasLine, MessageLine)
    for name in shape.__struct_fields__
)
_STATES: Final = frozenset(state.label for state in (MessageState.ACTIVE, MessageState.PINNED, MessageState.ARCHIVED))


def encoded(line: Line) -> bytes:
    """Return a line's bytes, its end included."""
    return msgspec.json.encode(line) + b"\n"


def read_line(line: NumberedLine) -> Line:
    """Return what a line says.

    Raises:
        WrongLine: it is no line of an export, or a value in it is out of bounds. Nothing of it is quoted.
    """
    value = decoded(line)
    try:
        found: Line = msgspec.convert(value, Line, strict=True)
        _check(found)
    except msgspec.ValidationError as error:
        raise WrongLine(line.number, _reason(str(error))) from None
    except InvalidSchema as error:
        raise WrongLine(line.number, error.detail) from error
    return found


def decoded(line: NumberedLine) -> Any:
    """Return the JSON value of a line, read as strictly as what comes over the wire.

    Raises:
        WrongLine: it is no JSON, or has more than one reading.
    """
    try:
        return decode(line.text)
    except Flaw as flaw:
        raise WrongLine(line.number, flaw.reason.value) from None


def _reason(told: str) -> str:
    """Say what does not fit, in words of ours: msgspec's may quote what anybody can have written."""
    if "unknown field" in told:
        return "a field that is not known"
    if "missing required field" in told:
        return "a field is absent"
    place = told.rpartition(" - at ")[2].strip("`").removeprefix("$.")
    if place == "kind":
        return "a kind that is not known"
    return f"{place} does not fit" if place in _PLACES else "not an object of the right shape"


# --- bounds -----------------------------------------------------------------------------------------


def _check(line: Line) -> None:
    match line:
        case HeaderLine():
            if line.version != VERSION:
                raise InvalidSchema(f"an export of version {line.version}, which this release does not read")
            _instant(line.exported_at, "exported_at")
        case ProfileLine():
            _check_profile(line)
        case ProjectTagLine():
            _tag(line.name)
            if len(line.description) > limits.PROJECT_TAG_DESCRIPTION_MAX_CHARACTERS:
                raise InvalidSchema("a description is too long")
        case ProjectAliasLine():
            _tag(line.name)
            _tag(line.alias_of)
        case MessageLine():
            _check_message(line)


def _check_profile(line: ProfileLine) -> None:
    bounds = (
        (line.user_name, limits.USER_NAME_MAX_CHARACTERS), (line.core_profile, limits.PROFILE_CORE_MAX_CHARACTERS),
        (line.sub_profile, limits.PROFILE_SUB_MAX_CHARACTERS), (line.action, limits.REF_MAX_BYTES),
        (line.by, limits.REF_MAX_BYTES),
    )  # fmt: skip
    if any(len(text) > most for text, most in bounds):
        raise InvalidSchema("a text of the profile is too long")
    _instant(line.recorded_at, "recorded_at")


def _check_message(line: MessageLine) -> None:
    _instant(line.created_at, "created_at")
    if line.state not in _STATES:
        raise InvalidSchema("state does not fit")
    for text in (line.message, *(line.earlier or ())):
        text_within(text, "message")
    if not line.agent_platform or line.external_id == "":
        raise InvalidSchema("agent_platform or external_id is empty")  # of the others a client may have sent nothing
    if line.id is UNSET and line.external_id is UNSET:
        raise InvalidSchema("neither id nor external_id")
    if line.id is not UNSET and not is_message_id(line.id):
        raise InvalidSchema("id is no message's")
    if line.external_id is not UNSET and len(line.external_id.encode()) > limits.REF_MAX_BYTES:
        raise InvalidSchema("external_id is too long")
    if len({bool(line.subagent), line.subagent_model is not UNSET, line.subagent_role is not UNSET}) != 1:
        raise InvalidSchema("a subagent's model and role come with it, and never without it")
    if line.tags is not UNSET:
        _check_tags(line.tags)


def _check_tags(tags: MessageTags) -> None:
    if tags.p_tag is not UNSET:
        _tag(tags.p_tag)
    words = tags.d_tags or ()
    if len(words) > limits.KEYWORDS_MAX or len(set(words)) != len(words):
        raise InvalidSchema("d_tags are too many, or one stands twice")
    if any(keyword(word) != word for word in words):
        raise InvalidSchema("a d_tag is not in its one form")


def text_within(text: str, name: str) -> None:
    """Refuse a text that no message can have.

    Raises:
        InvalidSchema: it is empty or over MESSAGE_MAX_BYTES.
    """
    if not 1 <= len(text.encode()) <= limits.MESSAGE_MAX_BYTES:
        raise InvalidSchema(f"a {name} is empty or too long")


def is_message_id(text: str) -> bool:
    """Whether a text has the form of a message's id."""
    digits = text.removeprefix(PREFIX)
    return digits != text and len(digits) == 32 and set(digits) <= set("0123456789abcdef")  # noqa: PLR2004 - 16 bytes


def _tag(name: str) -> None:
    if project_tag_name(name) != name:
        raise InvalidSchema("a project tag's name is not in its one form")


def _instant(text: str, name: str) -> None:
    try:
        parse_instant(text)
    except (ValueError, OverflowError) as error:
        raise InvalidSchema(f"{name} is no instant as YYYY-MM-DDTHH:mm:ss.sssZ") from error
