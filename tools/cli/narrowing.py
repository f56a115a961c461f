"""The options that say which messages are meant, for every command that lists or searches them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tools.cli.failures import Refused

if TYPE_CHECKING:
    from projections.snapshot import Snapshot
    from projections.timeline_reader import Filter
    from tools.memory.call import Call

_F = TypeVar("_F", bound=Callable[..., Any])
RANGES = "today, yesterday, last_week, last_month, N_days_ago, YYYY-MM-DD, A..B, A.. or ..B"


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowing:
    """Which messages a person means. What is None asks for nothing."""

    since: str | None
    platform: str | None
    role: str | None
    here: bool
    tag: str | None
    archived: bool

    def filter(self, call: Call, snapshot: Snapshot, device: str | None = None) -> Filter:
        """Return the filter that it means.

        Raises:
            InvalidSchema: the range has no known form. Refused: no project tag has that name.
        """
        from projections.timeline_reader import Filter
        from tools.conversation.dates import DateRange, parse_date_range
        from tools.conversation.platforms import canonical_platform, is_wildcard

        bound = call.binding.conversation
        days = DateRange(None, None) if self.since is None else parse_date_range(self.since, call.now, bound.zone)
        named = self.platform is not None and not is_wildcard(self.platform)
        return Filter(
            owners=bound.user, since=days.since, until=days.until, role=self.role,
            platform=canonical_platform(self.platform) if named else None,
            device=bound.device if self.here else device,
            tags=None if self.tag is None else _family(snapshot, bound.user, self.tag), archived=self.archived,
        )  # fmt: skip

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of search_memory that mean the same."""
        named = {
            "date_range": self.since, "agent_platform": self.platform, "role": self.role, "p_tag": self.tag,
            "device_scope": "local" if self.here else None, "include_archived": self.archived or None,
        }  # fmt: skip
        return {name: value for name, value in named.items() if value is not None}


def narrowing_options(command: _F) -> _F:
    """Add ``--since``, ``--platform``, ``--role``, ``--here``, ``--tag``, ``--archived``."""
    options = (
        click.option("--since", metavar="RANGE", help=f"When it was said: {RANGES}."),
        click.option("--platform", metavar="NAME", help="Which agent platform it was said on."),
        click.option("--role", type=click.Choice(["user", "assistant"]), help="Who spoke."),
        click.option("--here", is_flag=True, help="What was said on this device."),
        click.option("--tag", metavar="NAME", help="A project tag; an alias means its whole family."),
        click.option("--archived", is_flag=True, help="Archived messages too."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _family(snapshot: Snapshot, owners: frozenset[str], name: str) -> frozenset[str]:
    from tools.conversation.arguments import project_tag_name

    family: frozenset[str] | None = snapshot.reader("tags").family(owners, project_tag_name(name))
    if family is None:
        raise Refused("no project tag of that name; engram tags list shows them")
    return family
