"""What a durable capture costs: one caller and many, beside a bare LMDB transaction of the same bytes in the same run.

    python bench/commit.py [--count N] [--callers N]

Prints medians and the ratio. Machines are noisy: the ratio within one run is what counts.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb

from journal import layout
from journal.log import Journal
from journal.scope import Scope
from tools.host.binding import Binding
from tools.host.capabilities import ALL_TOOLS, CAPTURE
from tools.host.conversation import ConversationBinding
from tools.host.sections import ConfirmationSection, PurposeSection
from tools.memory.call import Call
from tools.memory.engine import Engine
from tools.memory.mutation import run
from tools.memory.mutations import mutation_of

_TEXT = "The nightly build moved to 02:30 because backups end at 02:00. " * 16  # 1 KB
_DIGEST = "sha256:" + 64 * "a"


def binding() -> Binding:
    """Return a binding that may do everything."""
    scope = Scope.of("bench", "bench")
    return Binding(
        scope=scope, principal="bench", agent_id=None, enabled=True,
        purposes=(PurposeSection(ref="purpose:bench"),), granted=frozenset(ALL_TOOLS), policy="accept-asserted",
        confirmation=ConfirmationSection(), retention_ceiling_milliseconds=10**12, allow_retain=False,
        packet_cap_bytes=1 << 20, families=frozenset(), conversation=ConversationBinding.of(scope, "bench"),
    )  # fmt: skip


def arguments(key: str) -> dict[str, Any]:
    """Return the arguments of a capture of 1 KB of text."""
    citation = {
        "citation_id": "citation:1", "source_ref": "source:bench", "locator": {"scheme": "line", "value": "1"},
        "content_digest": _DIGEST,
    }  # fmt: skip
    component = {"component_id": "component:1", "kind": "decision", "text": _TEXT, "citation_ids": ["citation:1"]}
    payload = {
        "schema_version": 2, "purpose_ref": "purpose:bench", "valid_time": {"t": 0}, "components": [component],
        "primary_component_id": "component:1",
        "primary_event": {"at": 0, "type_ref": "event:bench", "citation_id": "citation:1"}, "citations": [citation],
    }  # fmt: skip
    evidence = {"evidence_ref": "evidence:bench", "evidence_digest": _DIGEST, "citation_ids": ["citation:1"]}
    return {"idempotency_key": key, "payload": payload, "evidence": evidence}


def capture(engine: Engine, key: str) -> None:
    """Capture one candidate, durably."""
    call = Call(
        binding=engine.binding, actor=engine.binding.actor(), now=engine.clock.now(), deadline=time.monotonic() + 60
    )
    raw = arguments(key)
    run(engine, call, mutation_of(engine, CAPTURE, raw, call), raw)


def median_milliseconds(action: Callable[[int], None], count: int) -> float:
    """Return the median time of an action over so many runs."""
    times = []
    for number in range(count):
        began = time.perf_counter()
        action(number)
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1000


def bare(place: Path, count: int, size_bytes: int, per_transaction: int = 1) -> float:
    """Return the median milliseconds of a bare LMDB transaction that puts so many values of this size."""
    place.mkdir()
    with lmdb.open(str(place), map_size=1 << 32, lib_version=0) as env:

        def put(number: int) -> None:
            with env.begin(write=True) as txn:
                for row in range(per_transaction):
                    txn.put(b"%016d" % (number * per_transaction + row), bytes(size_bytes))

        return median_milliseconds(put, count)


def many(engine: Engine, callers: int, each: int) -> float:
    """Return captures a second with so many callers at once."""

    def work(caller: int) -> None:
        for number in range(each):
            capture(engine, f"many-{caller:06d}-{number:012d}")

    threads = [threading.Thread(target=work, args=(caller,)) for caller in range(callers)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return callers * each / (time.perf_counter() - began)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--callers", type=int, default=64)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        layout.create(place / "store", "bench")
        engine = Engine(Journal.open(place / "store", bytes(32)), binding())
        capture(engine, "warm-up-000000000")
        one = median_milliseconds(lambda number: capture(engine, f"one-{number:016d}"), options.count)
        plain = bare(place / "bare", options.count, 2_600)
        rate = many(engine, options.callers, max(1, 4 * options.count // options.callers))
        batch = bare(place / "batch", 50, 2_600, options.callers)
        engine.close()
    print(f"one caller: {one:.2f} ms a capture; bare LMDB of the same bytes {plain:.2f} ms; ratio {one / plain:.2f}")
    share = rate / (options.callers * 1000 / batch)
    print(f"{options.callers} callers: {rate:.0f} captures/s; {share:.2f} of bare LMDB batches of {options.callers}")


if __name__ == "__main__":
    main()
