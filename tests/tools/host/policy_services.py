"""Policies that stand outside of the process: programs, and services on this machine, that answer as a test says."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from journal.clock import instant
from journal.digests import sealed_receipt
from tests.projections.vector.endpoints import Reply, send
from tools.host.policies.port import PolicyRequest

ROOT = Path(__file__).resolve().parents[3]


def decided(request: PolicyRequest | dict[str, Any], now: int, decision: str = "accept", **changes: Any) -> Any:
    """Return an answer as JSON's value, with some fields changed, sealed again unless its digest is what is changed."""
    asked = (
        request if isinstance(request, dict) else {name: getattr(request, name) for name in request.__struct_fields__}
    )
    fields = {name: asked[name] for name in ("policy_id", "policy_version", "record_digest")}
    fields |= {"decision": decision, "issued_at": instant(now), **changes}
    return fields if "receipt_digest" in changes else sealed_receipt("decision", fields)


def program(folder: Path, body: str) -> tuple[str, ...]:
    """Write a policy's program; ``body`` sees ``request``, ``decided`` and ``say``, and return its command."""
    path = folder / "policy.py"
    path.write_text(
        "import json, sys, time\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from tests.tools.host.policy_services import decided\n"
        "request = json.load(sys.stdin)\n"
        "def say(answer): print(json.dumps(answer))\n" + body,
        encoding="utf-8",
    )
    return (sys.executable, str(path))


def saying(make: Callable[[dict[str, Any]], Any], status: int = 200) -> Reply:
    """Return a service's reply of what is made of the question, as JSON."""
    return lambda handler, request: send(handler, json.dumps(make(request.body)).encode(), status)
