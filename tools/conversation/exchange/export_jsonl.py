"""The export for machines: a user's whole conversation memory as lines, from which ``import_jsonl`` makes it again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import UNSET

from journal.clock import instant
from tools.conversation.exchange.lines import (
    SAID,
    VERSION,
    HeaderLine,
    MessageLine,
    MessageTags,
    ProfileLine,
    ProjectAliasLine,
    ProjectTagLine,
    encoded,
)

if TYPE_CHECKING:
    from tools.conversation.exchange.standing import Standing, StandingMemory


def jsonl_export(memory: StandingMemory, now: int) -> Iterator[bytes]:
    """Yield the export's lines, each with its end; ``now`` is in epoch milliseconds."""
    yield encoded(HeaderLine(version=VERSION, exported_at=instant(now)))
    for revision in memory.profile():
        line = ProfileLine(
            user_name=revision.user_name, core_profile=revision.core_profile, sub_profile=revision.sub_profile,
            action=revision.action, by=revision.by, recorded_at=instant(revision.recorded_at),
        )  # fmt: skip
        yield encoded(line)
    tags = memory.project_tags()
    for tag in tags:
        yield encoded(ProjectTagLine(name=tag.name, description=tag.description))
    for tag in tags:
        if tag.alias_of is not None:
            yield encoded(ProjectAliasLine(name=tag.name, alias_of=tag.alias_of))
    for message in memory.messages():
        yield encoded(message_line(message))


def message_line(standing: Standing) -> MessageLine:
    """Return the line of a message."""
    content, given = standing.content, standing.tags
    tags = None if given is None else MessageTags(p_tag=given["p_tag"] or UNSET, d_tags=tuple(given["d_tags"]) or UNSET)
    return MessageLine(
        id=standing.message_id, created_at=instant(content["created_at"]), state=standing.state.label,
        role=content["role"], message=content["message"], earlier=standing.earlier or UNSET,
        tags=UNSET if tags is None else tags,
        **{name: content[name] for name in SAID if name in content},
    )  # fmt: skip
