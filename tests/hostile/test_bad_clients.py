"""A client without manners holds up nobody else, and its server's memory stays within bounds.

The long form is ``python -m tests.hostile.run_bad_clients 60``; what it saw stands in docs/hostile.md.
"""

from __future__ import annotations

import pytest

from journal.limits import CALLS_IN_FLIGHT_MAX, FLIGHT_MAX_BYTES, LINE_MAX_BYTES
from tests.hostile.bad_clients import BAD_CLIENTS
from tests.hostile.run_bad_clients import beside
from tests.hostile.served import Store

SECONDS = 4
# A server at rest has less; then the lines that may be held, each read, parsed and answered at once, and room to spare.
AT_REST_BYTES = 100 << 20
GROWTH_MAX_BYTES = 8 * FLIGHT_MAX_BYTES + 8 * LINE_MAX_BYTES


@pytest.mark.parametrize("name", list(BAD_CLIENTS))
def test_a_bad_client_is_no_concern_of_an_honest_one(tmp_path, name):
    seen = beside(Store.make(tmp_path), name, SECONDS)
    assert seen.done > 0
    assert seen.honest_cycles > 0
    assert seen.impure == []
    assert seen.peak_bytes < AT_REST_BYTES + GROWTH_MAX_BYTES, seen.told()
    assert seen.threads <= CALLS_IN_FLIGHT_MAX + 20
