"""Targets under hypothesis, which knows the shapes: ``python -m fuzz.unguided SECONDS [TARGET ...]``."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import msgspec
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from fuzz.kept import seeds
from fuzz.targets import TARGETS

_BATCH_EXAMPLES = 500

_leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["a", "s", "c"])
_json = st.recursive(
    _leaves, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=8), inner), max_leaves=20
)
_packed = st.recursive(
    _leaves.filter(lambda leaf: not isinstance(leaf, int) or -(1 << 63) <= leaf < 1 << 64) | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=20,
)


def _spliced(seed: bytes, at: int, length: int, piece: bytes) -> bytes:
    at %= len(seed) + 1
    return seed[:at] + piece + seed[at + length :]


def inputs(target: str) -> st.SearchStrategy[bytes]:
    """Return inputs: bytes, encoded values, and the target's seeds with a piece exchanged."""
    known = seeds(target) or [b""]
    changed = st.builds(
        _spliced, st.sampled_from(known), st.integers(0, 10_000), st.integers(0, 20), st.binary(max_size=40)
    )
    encoded = (
        (_packed.map(msgspec.msgpack.encode)) if target in {"frame", "keyring"} else _json.map(msgspec.json.encode)
    )
    prefixed = st.builds(bytes.__add__, st.binary(min_size=1, max_size=1), encoded)
    return st.binary(max_size=400) | st.text().map(str.encode) | encoded | prefixed | changed


def _batch(target: str) -> Callable[[], None]:
    @settings(
        max_examples=_BATCH_EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )  # fmt: skip
    @given(inputs(target))
    def tried(raw: bytes) -> None:
        TARGETS[target](raw)

    return tried


def main() -> int:
    """Run each target for some seconds; return 1 where one had a finding."""
    seconds, names, code = int(sys.argv[1]), sys.argv[2:] or list(TARGETS), 0
    for name in names:
        batch, batches, until = _batch(name), 0, time.monotonic() + seconds
        try:
            while time.monotonic() < until:
                batch()
                batches += 1
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
            sys.stderr.write(f"finding of {name}: {type(error).__name__}: {getattr(error, '__notes__', '')}\n")
            code = 1
        sys.stdout.write(f"{name}: {batches * _BATCH_EXAMPLES:,} inputs\n")
        sys.stdout.flush()
    return code


if __name__ == "__main__":
    sys.exit(main())
