"""What the arguments of all tools share: closed shapes, bounds in UTF-8 bytes, and one way to refuse."""

from __future__ import annotations

import re
from typing import Any, Final, TypeVar

import msgspec

from journal.errors import InvalidSchema

_PLACE: Final = re.compile(r"`\$[.\w\[\]]*`", re.ASCII)


class Closed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An object without further fields; an optional field is absent, never null."""


_T = TypeVar("_T", bound=Closed)


def converted(raw: dict[str, Any], shape: type[_T]) -> _T:
    """Return the struct that raw arguments spell; InvalidSchema where they do not fit its shape."""
    try:
        return msgspec.convert(raw, shape, strict=True)
    except (msgspec.ValidationError, RecursionError, UnicodeEncodeError) as error:
        # Where it does not fit, for the operator's log; not what stands there, which a message may quote.
        place = str(error).rpartition(" - at ")[2] if isinstance(error, msgspec.ValidationError) else ""
        fits = _PLACE.fullmatch(place) is not None
        raise InvalidSchema(f"{shape.__name__}: {place if fits else type(error).__name__}") from error


def require(holds: bool, detail: str) -> None:  # noqa: FBT001 - reads as an assertion
    """Refuse by InvalidSchema unless something holds; ``detail`` goes to the log only."""
    if not holds:
        raise InvalidSchema(detail)


def within(number: int, least: int, most: int, name: str, unit: str = "") -> None:
    """Refuse a number out of its bounds, both of which it may be; ``unit`` is what it counts."""
    if not least <= number <= most:
        raise InvalidSchema(f"{name} is out of bounds: {least} to {most}{unit and f' {unit}'}")


def text_within(text: str, most_bytes: int, name: str, least: int = 1) -> None:
    """Refuse free text, of any normal form, that is not within its bounds in UTF-8 bytes, or is no UTF-8 at all."""
    try:
        size_bytes = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidSchema(f"{name} holds an unpaired surrogate") from error
    within(size_bytes, least, most_bytes, name, "bytes")
