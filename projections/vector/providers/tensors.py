"""Reading a .safetensors file: numbers and nothing else, so that a model out of a folder runs no code.

header size  u64 le
header       JSON: name -> {dtype, shape, data_offsets: [begin, end]}, the offsets counted from the header's end
numbers      little-endian, row by row
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from journal import limits

_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I8": "i1"}
_SIZE_BYTES = 8


class _Tensor(msgspec.Struct):
    dtype: str
    shape: tuple[Annotated[int, Meta(ge=0)], ...]
    data_offsets: tuple[Annotated[int, Meta(ge=0)], Annotated[int, Meta(ge=0)]]


class NoTensors(ValueError):
    """The file is no .safetensors file that can be read here."""


def tensors_of(path: Path) -> dict[str, NDArray[Any]]:
    """Return every tensor by its name, mapped and read-only: of the numbers only what is used comes into memory.

    Raises:
        NoTensors: the file is not what it should be.
        OSError: it cannot be read.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        header_bytes = int.from_bytes(file.read(_SIZE_BYTES), "little")
        if size < _SIZE_BYTES or header_bytes > min(size - _SIZE_BYTES, limits.EMBEDDING_HEADER_MAX_BYTES):
            raise NoTensors("the header is cut or too long")
        header = file.read(header_bytes)
    begin = _SIZE_BYTES + header_bytes
    try:
        named = msgspec.json.decode(header, type=dict[str, msgspec.Raw])
        told = {name: msgspec.json.decode(raw, type=_Tensor) for name, raw in named.items() if name != "__metadata__"}
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise NoTensors("the header is not one") from None
    numbers = np.memmap(path, dtype=np.uint8, mode="r", offset=begin) if size > begin else np.empty(0, np.uint8)
    return {name: _tensor(numbers, each) for name, each in told.items()}


def _tensor(numbers: NDArray[np.uint8], told: _Tensor) -> NDArray[Any]:
    begin, end = told.data_offsets
    kind = _TYPES.get(told.dtype)
    if kind is None:
        raise NoTensors("a tensor holds numbers of a kind that is not read here")
    if not begin <= end <= len(numbers) or end - begin != math.prod(told.shape) * np.dtype(kind).itemsize:
        raise NoTensors("a tensor lies outside the file or is of another size than its shape")
    return np.frombuffer(numbers, kind, math.prod(told.shape), begin).reshape(told.shape)
