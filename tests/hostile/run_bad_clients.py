"""Let each bad client loose on a server while an honest one works over the same store, and say what was seen.

python -m tests.hostile.run_bad_clients 60
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

from tests.hostile.bad_clients import BAD_CLIENTS
from tests.hostile.served import Honest, PeakMemory, Store
from tests.tools.memory.world import PURPOSE, capture_arguments
from tools.host.capabilities import CAPTURE, GET, REQUEST_ADMISSION, SEARCH

MIB = 1 << 20


@dataclass(frozen=True)
class Seen:
    """What one bad client did, and how the servers and the honest client fared."""

    bad_client: str
    done: int
    before_bytes: int
    peak_bytes: int
    threads: int
    honest_cycles: int
    latencies_seconds: list[float]
    impure: list[bytes]

    def told(self) -> str:
        ordered = sorted(self.latencies_seconds)
        middle, late = statistics.median(ordered), ordered[int(len(ordered) * 0.99)]
        return (
            f"{self.bad_client}: {self.done:,}; RssAnon {self.before_bytes / MIB:.0f} -> at most "
            f"{self.peak_bytes / MIB:.0f} MiB; {self.threads} threads; honest calls {len(ordered):,}: "
            f"p50 {middle * 1000:.1f} ms, p99 {late * 1000:.1f} ms, max {ordered[-1] * 1000:.0f} ms"
        )


def cycle(honest: Honest, number: int) -> None:
    """Capture, admit, find and get one record."""
    text = f"The honest nightly build number {number} moved."
    candidate = honest.call(CAPTURE, capture_arguments(text, f"honest-key-of-16-bytes-{number}"))["candidate_id"]
    admission = {"candidate_id": candidate, "idempotency_key": f"honest-admission-16-bytes-{number}"}
    outcome = honest.call(REQUEST_ADMISSION, admission)["outcome"]
    assert outcome["status"] == "accepted", outcome
    found = honest.call(SEARCH, {"query": f"number {number}", "purpose_ref": PURPOSE, "limit": 50})["records"]
    record_id = outcome["record_id"]
    assert record_id in {packet["record"]["record_id"] for packet in found}
    record = honest.call(GET, {"record_id": record_id, "purpose_ref": PURPOSE})["record"]
    assert record["components"][0]["text"] == text


def beside(store: Store, name: str, seconds: float) -> Seen:
    """Run a bad client for some seconds and an honest one meanwhile, each with a server of its own on one store.

    Raises:
        AssertionError: the honest client was not served, or the bad one was not answered.
    """
    bad_server, good_server = store.serve(), store.serve()
    try:
        good_server.read().handshake()
        honest = Honest(good_server)
        cycle(honest, 0)
        honest.latencies_seconds.clear()
        done: list[int] = []
        with PeakMemory(bad_server) as memory:
            bad = threading.Thread(target=lambda: done.append(BAD_CLIENTS[name](bad_server, seconds)))
            bad.start()
            cycles = 0
            while bad.is_alive():
                cycles += 1
                cycle(honest, cycles)
            bad.join()
            threads = bad_server.threads()
        assert done, f"{name}: it was not served as it should be"
        assert bad_server.process.poll() is None
        assert good_server.end() == 0
        return Seen(
            name, done[0], memory.before_bytes, memory.peak_bytes, threads, cycles, honest.latencies_seconds,
            bad_server.impure + good_server.impure,
        )  # fmt: skip
    finally:
        bad_server.kill()
        good_server.kill()


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60
    for name in BAD_CLIENTS:
        with tempfile.TemporaryDirectory(prefix="engram-hostile-") as folder:
            sys.stdout.write(beside(Store.make(Path(folder)), name, seconds).told() + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
