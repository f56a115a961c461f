"""engram stats: figures of the store. Never a word of content, and no other scope than the bound one unless asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from journal import limits
from tools.cli import terminal
from tools.cli.counting import counted, singular
from tools.cli.failures import CannotRun
from tools.cli.opening import bound, reading
from tools.cli.options import config_option, json_option, workspace_option
from tools.cli.output import give

if TYPE_CHECKING:
    from journal.log import Journal
    from journal.scope import Scope


@click.command()
@config_option
@json_option
@workspace_option
@click.option("--all", "every", is_flag=True, help="Every scope of the store, not the bound one alone.")
@click.option("--digests", is_flag=True, help="Compute the projections' digests too; reads all of them.")
def command(*, every: bool, digests: bool) -> None:
    """Print figures of the store: events, states, what is pending, keys, sizes, projections. Writes nothing."""
    from tools.cli.figures.embeddings import model_of
    from tools.cli.figures.scope import scope_figures
    from tools.cli.figures.store import store_figures

    command_bound = bound()
    anchor, model = command_bound.host_file.anchor, model_of(command_bound.host_file.semantic)
    with reading(command_bound.host_file) as journal:
        value = {
            "store": store_figures(journal),
            "scopes": [
                scope_figures(journal, scope, digests=digests, anchor=anchor, model=model)
                for scope in _scopes(journal, command_bound.scope, every=every)
            ],
        }
    give(value, lambda: "\n".join(_told(value)))


def _scopes(journal: Journal, own: Scope, *, every: bool) -> list[Scope]:
    from journal.store.lmdb.engine import LmdbStore

    if not isinstance(journal.store, LmdbStore):
        raise CannotRun("stats knows the figures of a store on this machine only")
    present = journal.store.scopes()
    return present if every else [scope for scope in present if scope == own]


# --- for a person -----------------------------------------------------------------------------------


def _told(value: dict[str, Any]) -> Iterator[str]:
    store = value["store"]
    yield terminal.fields(
        [
            ("store", store["path"]),
            ("journal", f"{_size(store['journal_bytes'])}, {store['map']['used_share']:.2%} of its map"),
            ("keys", _size(store["keys_bytes"])),
            ("projections", _size(store["projections_bytes"])),
            ("reader slots", f"{store['readers']['used']} of {store['readers']['max']} were used at once"),
            ("open in", _numbered(store["open"])),
        ]
    )
    for scope in value["scopes"]:
        yield ""
        yield from _told_scope(scope)
    if not value["scopes"]:
        yield "\nNo event yet."


def _numbered(opened: dict[str, Any]) -> str:
    named = f" ({', '.join(str(pid) for pid in opened['pids'])})" if opened["pids"] else ""
    unclean = f"; {opened['unclean']} ended without closing it" if opened["unclean"] else ""
    return f"{counted(opened['processes'], 'processes')}{named}{unclean}"


def _checkpoints(found: dict[str, Any]) -> str:
    outside = f"in the anchor {found['anchor_newest'] or 'none'}" if found["anchor"] else "no anchor outside"
    return f"newest at cursor {found['newest'] or '-'}, {found['count']} in the store; {outside}"


def _scrub(found: dict[str, Any] | None) -> str:
    if found is None:
        return "not begun"
    trouble = f"; {counted(found['findings'], 'FINDINGS', 'FINDING')}, run engram audit" if found["findings"] else ""
    return f"clean up to cursor {found['clean_cursor']}, {_time(found['clean_at'])}{trouble}"


def _told_scope(scope: dict[str, Any]) -> Iterator[str]:
    from tools.cli.figures.embeddings import told

    events, keys, slots = scope["events"], scope["keys"], scope["keys"]["slots"]
    pending = scope["pending"]
    yield terminal.fields(
        [
            ("scope", terminal.scope_name(scope)),
            ("head cursor", scope["head_cursor"]),
            ("recorded", f"{_time(scope['first_recorded_at'])} to {_time(scope['last_recorded_at'])}"),
            ("events", f"{events['total']}: {_counts(events['by_family'])}"),
            ("by type", _counts(events["by_type"])),
            ("candidates", _counts(scope["candidates"])),
            ("records", _counts(scope["records"])),
            ("confirmations", _counts(scope["confirmations"])),
            ("messages", _counts(scope["messages"])),
            ("grants", _counts(scope["grants"])),
            ("project tags", _counts(scope["conversation"]["tags"])),
            ("profiles", _counts(scope["conversation"]["profiles"])),
            ("conversation", _counts(scope["conversation"]["events"])),
            ("sealed parts", _counts(scope["parts"])),
            ("pending", _counts(pending)),
            ("checkpoints", _checkpoints(scope["checkpoints"])),
            ("scrub", _scrub(scope["checkpoints"]["scrub"])),
            ("keys", f"epoch {keys['epoch']}, generation {keys['generation']}; slots: {_counts(slots)}"),
            *([("embeddings", told(scope["embeddings"]))] if "embeddings" in scope else []),
        ]
    )
    yield terminal.table(
        ("projection", "version", "state", "cursor", "behind", "generations", "size"),
        [
            (
                one["name"], str(one["version"] or "-"), one["state"], one["cursor"] or "-",
                "-" if one["behind"] is None else str(one["behind"]),
                ", ".join(each["number"] for each in one["generations"]) or "-",
                _size(sum(each["size_bytes"] for each in one["generations"])),
            )
            for one in scope["projections"]
        ],
    )  # fmt: skip
    for one in scope["projections"]:
        if one.get("digest"):
            yield terminal.wrapped(f"digest of {one['name']} at {one['cursor']}: {one['digest']}", 2)


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(_count(name.replace("_", " "), count) for name, count in counts.items() if count) or "none"


def _count(name: str, count: int) -> str:
    noun = name.rsplit(" ", maxsplit=1)[-1]
    return counted(count, name, name.removesuffix(noun) + singular(noun))


def _time(text: str | None) -> str:
    return "-" if text is None else terminal.local_time(text)


def _size(size_bytes: int) -> str:
    if size_bytes < limits.KIB:
        return f"{size_bytes} bytes"
    if size_bytes < limits.MIB:
        return f"{size_bytes / limits.KIB:.1f} KiB"
    return f"{size_bytes / limits.MIB:,.1f} MiB"
