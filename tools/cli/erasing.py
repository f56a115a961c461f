"""Erasing messages at the terminal: which ones, a person's typed yes, and the erasure with its progress."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from journal import limits
from tools.cli import said, subjects, terminal
from tools.cli.counting import counted
from tools.cli.failures import Refused
from tools.cli.output import note
from tools.cli.progress import bar
from tools.cli.shortids import MESSAGE, shortened, whole
from tools.conversation import clearing
from tools.conversation.brief import when

if TYPE_CHECKING:
    from tools.memory.call import Call
    from tools.memory.engine import Engine

_DAY_MILLISECONDS = 86_400_000


class Erasing:
    """One erasure by hand."""

    def __init__(self, engine: Engine, call: Call) -> None:
        self._engine = engine
        self._call = call
        self._spare_pinned = False
        self.message_ids: list[str] = []

    def choose(self, given: Sequence[str]) -> None:
        """Choose messages by their ids or the beginnings of them.

        Raises:
            Refused: several begin so. NotFound: one is none of this user's. AlreadyTerminal: one is erased already.
        """
        with self._engine.journal.store.view(self._call.scope) as view:
            self.message_ids = list(dict.fromkeys(whole(view, each, MESSAGE) for each in given))
        clearing.erasable(self._engine, self._call, self.message_ids)

    def choose_older(self, days: int, *, pinned_too: bool) -> None:
        """Choose all messages said more than so many days ago; without ``pinned_too`` no pinned one."""
        before = self._call.now - days * _DAY_MILLISECONDS
        self._spare_pinned = not pinned_too
        self.message_ids, spared = clearing.older_than(self._engine, self._call, before, pinned_too=pinned_too)
        if spared:
            note(f"{spared} pinned ones are spared; with --pinned-too they go as well")

    def ask(self) -> None:
        """Let the person say yes.

        Raises:
            Refused: anything else was typed, or nothing.
        """
        for line in self._shown():
            note(line)
        click.echo(f"This erases {_counted(self.message_ids)} for good. Type yes to go on: ", nl=False, err=True)
        typed = sys.stdin.readline()
        if not typed.endswith("\n"):
            note("")
        if typed.strip().lower() != "yes":
            raise Refused("nothing was erased: it takes a typed yes, or --yes")

    def _shown(self) -> Iterator[str]:
        """Yield a line for each of the first messages: when and where it was said, and its first line, safe."""
        zone, user = self._call.binding.conversation.zone, self._call.binding.conversation.user
        shown = self.message_ids[: limits.ERASE_SHOWN]
        with self._engine.projections(self._call.scope).snapshot(self._call.deadline, ["timeline"]) as snapshot:
            for message_id in shown:
                row = snapshot.reader("timeline").find(user, message_id)
                if row is None:
                    continue
                one = said.opened(self._engine, self._call, row)
                moment = when(row.created_at, zone) if one.content else "-"
                words = (
                    subjects.beginning(one.content["message"].lstrip().split("\n")[0]) if one.content else one.instead
                )
                yield terminal.row([moment, one.content.get("agent_platform", "-"), words, shortened(message_id)])
        if len(self.message_ids) > len(shown):
            yield f"and {len(self.message_ids) - len(shown)} more"

    def erase(self) -> dict[str, Any]:
        """Erase what was chosen; return {erased, key_destruction, projection_invalidation}."""
        with bar("erasing") as progress:
            erased = clearing.erase_messages(
                self._engine, self._call, self.message_ids, spare_pinned=self._spare_pinned, progress=progress
            )
        with _adding_up("cleaning") as cleaned:
            return {"erased": len(erased), **clearing.finish(self._engine, self._call, erased, cleaned)}


@contextmanager
def _adding_up(label: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a bar for work that comes in rounds of (done, total) each, which begin again at little."""
    ended, last, total_before = 0, 0, 0
    with bar(label) as draw:

        def progress(done: int, total: int) -> None:
            nonlocal ended, last, total_before
            if done < last:
                ended += total_before
            last, total_before = done, total
            draw(ended + done, ended + total)

        yield progress


def _counted(message_ids: Sequence[str]) -> str:
    return counted(len(message_ids), "messages")
