"""Ids by their beginnings: a person may type so much of an id as is needed to tell it from the others."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from journal import limits

if TYPE_CHECKING:
    from journal.store.port import View
    from tools.cli.failures import Refused

CANDIDATE = "candidate_"
RECORD = "mem_"
CONFIRMATION = "confirmation_"
MESSAGE = "message_"
ELLIPSIS = "…"
_REST = {
    kind: re.compile("[a-z2-7]*" if kind == RECORD else "[0-9a-f]*")
    for kind in (CANDIDATE, RECORD, CONFIRMATION, MESSAGE)
}


def is_whole(text: str) -> bool:
    """Whether a text is an id."""
    return any(text.startswith(kind) and rest.fullmatch(text, len(kind)) for kind, rest in _REST.items())


def shortened(whole_id: str) -> str:
    """Return the beginning of an id, as a narrow table shows it."""
    cut = limits.ID_SHOWN_CHARACTERS
    return whole_id if len(whole_id) <= cut + 1 else f"{whole_id[:cut]}{ELLIPSIS}"


def whole(view: View, given: str, *kinds: str) -> str:
    """Return the id that was meant: the one of these kinds that begins so, else what was given, for others to refuse.

    Args:
        view: of the scope that the command is about.
        given: an id, or at least ``limits.ID_BEGINNING_CHARACTERS_MIN`` characters of its beginning, with or without
            its kind before them.
        kinds: what ids may begin with: ``CANDIDATE``, ``RECORD``, ``CONFIRMATION``, ``MESSAGE``.

    Raises:
        Refused: several ids begin so, and it names them; or the beginning is too short to mean one.
    """
    beginning = given.removesuffix(ELLIPSIS)
    named = next((kind for kind in kinds if beginning.startswith(kind)), None)
    rest = beginning if named is None else beginning.removeprefix(named)
    possible = [kind for kind in kinds if named in (None, kind) and _REST[kind].fullmatch(rest)]
    if named is not None or possible:
        _check_length(rest, kinds[0] if named is None else named)
    found = sorted(each for kind in possible for each in _ids(view, kind) if each.startswith(f"{kind}{rest}"))
    if not found or beginning in found:
        return beginning if named is not None else given
    if len(found) > 1:
        shown = ", ".join(found[: limits.ID_SUGGESTIONS_MAX])
        more = len(found) - limits.ID_SUGGESTIONS_MAX
        raise _refused(f"{len(found)} ids begin so: {shown}" + (f" and {more} more" if more > 0 else ""))
    return found[0]


def _check_length(rest: str, kind: str) -> None:
    least = limits.ID_BEGINNING_CHARACTERS_MIN
    if len(rest) < least:
        raise _refused(f"that beginning of an id is too short: give at least {least} characters of it after {kind}")


def _refused(text: str) -> Refused:
    from tools.cli.failures import Refused  # which draws on the terminal, as tables of ids do

    return Refused(text)


def _ids(view: View, kind: str) -> Iterable[str]:
    for name, subject in view.subjects():
        if kind == RECORD:
            if subject.record_id is not None:
                yield subject.record_id
        elif name.startswith(kind):
            yield name
