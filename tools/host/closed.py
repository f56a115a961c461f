"""From a TOML document to its sections, with every refusal in words: an unknown key names its nearest neighbour."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from tools.host.capabilities import nearest
from tools.host.exceptions import HostFileError
from tools.host.sections import RESERVED, Section

_PLACE = re.compile(r"^(?P<what>.*?)(?: - at `\$\.?(?P<key>[^`]*)`)?$", re.DOTALL)
_WORDS = {
    "Expected": "expected",
    "`object`": "a table",
    "`array`": "a list",
    "`str`": "a string",
    "`bool`": "true or false",
    "`int`": "a whole number",
    "`float`": "a number",
}
_SectionT = TypeVar("_SectionT", bound=Section)
_MISSING = re.compile(r"Object missing required field `(?P<name>[^`]+)`")


def convert(path: Path, document: dict[str, Any], into: type[_SectionT]) -> _SectionT:
    """Return the sections of a parsed file: of a host file, or of a file that it names.

    Args:
        path: the file, for what is said of it.
        document: what was parsed.
        into: the section that is the whole of it.

    Raises:
        HostFileError: a key is unknown, reserved, missing, or its value does not fit.
    """
    whole = inspect.type_info(into)
    descriptions = dict(_described(whole, ""))
    _refuse_unknown(path, document, whole, "", descriptions)
    try:
        return msgspec.convert(document, into)
    except msgspec.ValidationError as error:
        raise _in_words(path, str(error), descriptions) from None


def _refuse_unknown(path: Path, value: Any, type_info: inspect.Type, key: str, known: Mapping[str, str]) -> None:
    """Walk the document beside its types; what the types do not fit is left to msgspec."""
    type_info = _bare(type_info)
    if isinstance(type_info, inspect.VarTupleType) and isinstance(value, list):
        for position, item in enumerate(value):
            _refuse_unknown(path, item, type_info.item_type, f"{key}[{position}]", known)
    if not (isinstance(type_info, inspect.StructType) and isinstance(value, dict)):
        return
    fields = {field.encode_name: field.type for field in type_info.fields}
    for name, item in value.items():
        full = f"{key}.{name}" if key else name
        mend = RESERVED.get(full) or RESERVED.get(key)
        if name in fields:
            _refuse_unknown(path, item, fields[name], full, known)
        elif mend:
            raise HostFileError(path, full, "is not understood by this release", mend)
        else:
            raise HostFileError(path, full, "is not a known key", _suggestion(full, key, known))


def _bare(type_info: inspect.Type) -> inspect.Type:
    """Return the type without bounds and without its absence."""
    while isinstance(type_info, inspect.Metadata):
        type_info = type_info.type
    if isinstance(type_info, inspect.UnionType):
        present = [each for each in type_info.types if not isinstance(each, inspect.NoneType)]
        if len(present) == 1:
            return _bare(present[0])
    return type_info


def _suggestion(full: str, section: str, names: Iterable[str]) -> str:
    """Name the key that was meant: in the same section if one is near, else anywhere."""
    bare_section = re.sub(r"\[\d+\]", "", section)
    wanted = re.sub(r"\[\d+\]", "", full)
    beside = {key.rpartition(".")[2]: key for key in names if key.rpartition(".")[0] == bare_section}
    last = wanted.rpartition(".")[2]
    near = nearest(last, beside)
    if near:
        return f"did you mean {beside[near]}?"
    anywhere = {key.rpartition(".")[2]: key for key in sorted(names)}
    near = nearest(last, anywhere)
    return f"did you mean {anywhere[near]}?" if near else "remove it"


def _described(type_info: inspect.Type, key: str) -> Iterator[tuple[str, str]]:
    """Yield every key that a file may hold, with its description."""
    description = ""
    if isinstance(type_info, inspect.Metadata):
        description = (type_info.extra_json_schema or {}).get("description", "")
    bare = _bare(type_info)
    if not description and isinstance(type_info, inspect.UnionType):
        described = [each for each in type_info.types if isinstance(each, inspect.Metadata)]
        description = (described[0].extra_json_schema or {}).get("description", "") if described else ""
    if key:
        yield key, description
    if isinstance(bare, inspect.VarTupleType):
        bare = _bare(bare.item_type)
    if isinstance(bare, inspect.StructType):
        for field in bare.fields:
            yield from _described(field.type, f"{key}.{field.encode_name}" if key else field.encode_name)


def _in_words(path: Path, message: str, descriptions: Mapping[str, str]) -> HostFileError:
    """Turn msgspec's message into ours. It never quotes a value: ours are typed by a person and may be a key."""
    found = _PLACE.match(message)
    what, key = (found["what"], found["key"] or "") if found else (message, "")
    missing = _MISSING.match(what)
    if missing:
        key = f"{key}.{missing['name']}" if key else missing["name"]
        reason = "is missing"
    else:
        for theirs, ours in _WORDS.items():
            what = what.replace(theirs, ours)
        reason = f"is not what it should be ({what.replace('`', '')})"
    description = descriptions.get(re.sub(r"\[[^\]]*\]", "", key), "")
    return HostFileError(path, key, reason, f"write {description}" if description else "see what `engram init` writes")
