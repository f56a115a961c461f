"""Ids by their beginnings: a person may type so much of an id as is needed to tell it from the others."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from journal import limits

if TYPE_CHECKING:
    from journal.store.port import View

CANDIDATE = "candidate_"
RECORD = "mem_"
CONFIRMATION = "confirmation_"
MESSAGE = "message_"
ELLIPSIS = "…"
_ID = re.compile(rf"({CANDIDATE}|{CONFIRMATION}|{MESSAGE})[0-9a-f]+|{RECORD}[a-z2-7]+")


def is_whole(text: str) -> bool:
    """Whether a text is an id."""
    return _ID.fullmatch(text) is not None


def shortened(whole_id: str) -> str:
    """Return the beginning of an id, as a narrow table shows it."""
    cut = limits.ID_SHOWN_CHARACTERS
    return whole_id if len(whole_id) <= cut + 1 else f"{whole_id[:cut]}{ELLIPSIS}"


def whole(view: View, given: str, *kinds: str) -> str:
    """Return the id that was meant: the one of these kinds that begins so, else what was given, for others to refuse.

    Args:
        view: of the scope that the command is about.
        given: an id, or at least ``limits.ID_PREFIX_CHARACTERS_MIN`` characters of its beginning.
        kinds: what ids may begin with: ``CANDIDATE``, ``RECORD``, ``CONFIRMATION``, ``MESSAGE``.

    Raises:
        Refused: several ids begin so; it names them.
    """
    beginning = given.removesuffix(ELLIPSIS)
    kind = next((kind for kind in kinds if beginning.startswith(kind)), None)
    if kind is None or len(beginning) < limits.ID_PREFIX_CHARACTERS_MIN or len(beginning) == len(kind):
        return given
    found = sorted(each for each in _ids(view, kind) if each.startswith(beginning))
    if beginning in found or not found:
        return beginning
    if len(found) > 1:
        from tools.cli.failures import Refused  # which draws on the terminal, as tables of ids do

        shown = ", ".join(found[: limits.ID_SUGGESTIONS_MAX])
        more = len(found) - limits.ID_SUGGESTIONS_MAX
        raise Refused(f"{len(found)} ids begin so: {shown}" + (f" and {more} more" if more > 0 else ""))
    return found[0]


def _ids(view: View, kind: str) -> Iterable[str]:
    for name, subject in view.subjects():
        if kind == RECORD:
            if subject.record_id is not None:
                yield subject.record_id
        elif name.startswith(kind):
            yield name
