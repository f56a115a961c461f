"""Files of tensors, right and wrong."""

import json

import numpy as np
import pytest

from journal import limits
from projections.vector.providers.tensors import NoTensors, tensors_of

NUMBERS = np.arange(6, dtype="<f4").tobytes()


def written(path, header, numbers=NUMBERS, size=None):
    encoded = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(encoded) if size is None else size).to_bytes(8, "little") + encoded + numbers)
    return path


def told(dtype="F32", shape=(3, 2), offsets=(0, 24)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def test_tensors_are_read_by_name(tmp_path):
    header = {
        "__metadata__": {"format": "np"},
        "a": told(),
        "b": told("F16", (2,), (0, 4)),
        "c": told("I8", (), (0, 1)),
    }
    read = tensors_of(written(tmp_path / "m", header))
    assert read["a"].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert {name: (str(each.dtype), each.shape) for name, each in read.items()} == {
        "a": ("float32", (3, 2)),
        "b": ("float16", (2,)),
        "c": ("int8", ()),
    }
    assert not read["a"].flags.writeable


def test_no_tensor_is_none(tmp_path):
    assert tensors_of(written(tmp_path / "m", {}, b"")) == {}


@pytest.mark.parametrize(
    "header",
    [
        {"a": told("BF16")},
        {"a": told(offsets=(0, 25))},
        {"a": told(offsets=(1, 25))},
        {"a": told(offsets=(24, 0))},
        {"a": told(offsets=(-24, 0))},
        {"a": told(shape=(3, 3))},
        {"a": told(shape=(-3, -2))},
        {"a": told(shape=(2**62, 8), offsets=(0, 0))},
        {"a": {"dtype": "F32", "shape": [3, 2]}},
        {"a": 1},
        [],
        b"not JSON",
        b"[" * 10_000,
        b"\xff",
    ],
)
def test_what_a_file_says_wrongly_is_refused(tmp_path, header):
    with pytest.raises(NoTensors):
        tensors_of(written(tmp_path / "m", header))


def test_a_header_that_is_cut_or_too_long_is_refused(tmp_path):
    for size in (1000, 2**63, limits.EMBEDDING_HEADER_MAX_BYTES + 1):
        with pytest.raises(NoTensors):
            tensors_of(written(tmp_path / "m", {"a": told()}, size=size))
    for content in (b"", b"\x01", bytes(7)):
        (tmp_path / "m").write_bytes(content)
        with pytest.raises(NoTensors):
            tensors_of(tmp_path / "m")
    long = {"a": told(), "__metadata__": {"x": "y" * limits.EMBEDDING_HEADER_MAX_BYTES}}
    with pytest.raises(NoTensors):
        tensors_of(written(tmp_path / "m", long))
