"""What a damaged store's answers are worth."""

from __future__ import annotations

from dataclasses import dataclass

from journal import layout
from tests.corruption.asking import CODES, Told, is_refused, strange_among, without

_CURSORS = {"validated_through_cursor", "system_as_of", "rank_receipt"}
DETECTED, MENDED, HARMLESS, ROLLED_BACK, WRONG = "detected", "mended", "harmless", "rolled back", "WRONG"
OUTCOMES = (DETECTED, MENDED, HARMLESS, ROLLED_BACK, WRONG)


@dataclass(frozen=True, slots=True)
class Control:
    """What the store answers undamaged, now and in its older state."""

    new: Told
    old: Told


def judged(told: Told, control: Control, old: tuple[str, ...] = ()) -> tuple[str, str]:
    """Return the outcome, and words that say why; ``old`` are the folders that were put back as they were."""
    if told.ended is not None or told.doubled is not None:
        return WRONG, told.ended or str(told.doubled)
    if told.opening is not None:
        return (DETECTED if told.opening in CODES else WRONG), told.opening
    pairs = list(zip(told.answers + told.captures, control.new.answers + control.new.captures, strict=True))
    strange = strange_among(told.answers + told.captures, control.new.answers + control.new.captures)
    refused = [one["code"] if is_refused(one) else "told in a note" for one, right in pairs if one != right]
    if strange and layout.JOURNAL in old:
        return _rolled_back(told, control, old, strange)
    if strange:
        number = strange[0]
        return (
            WRONG,
            f"answer {number} of {strange} is {str(pairs[number][0])[:300]}, not {str(pairs[number][1])[:300]}",
        )
    if refused or told.walked or told.audit is not None:
        by = "by a walk over the pages" if told.walked else "by the audit"
        return DETECTED, ", ".join(sorted(set(refused))) or by
    return (MENDED, ", ".join(told.mended)) if told.mended else (HARMLESS, "")


def _rolled_back(told: Told, control: Control, old: tuple[str, ...], strange: list[int]) -> tuple[str, str]:
    """Judge an older journal: whole, it is a store of before. What it says must be that, and the checkpoints tell."""
    before = control.old.answers + control.old.captures
    mixed = [
        number
        for number in strange
        if without((told.answers + told.captures)[number], _CURSORS) != without(before[number], _CURSORS)
    ]
    if mixed:
        number = mixed[0]
        told_here = str((told.answers + told.captures)[number])[:300]
        return WRONG, f"answer {number} is neither of now nor of before: {told_here}"
    if told.audit is None and layout.CHECKPOINTS not in old:
        return WRONG, "an older journal that newer checkpoints do not betray"
    return ROLLED_BACK, "told by the audit" if told.audit is not None else "told by nothing inside the store"
