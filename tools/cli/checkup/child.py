"""The child process that looks into a store's maps, and the parent's side of it.

    python -m tools.cli.checkup.child

Reading a damaged map can end in SIGBUS, which no process outlives, and one on a bad disk can hang, which no thread can
be woken from. So a process of its own looks, and is ended when its time is up. It reads one JSON line on stdin,
``{"store": path, "map_size_bytes": bytes, "anchor": path or null, "embeddings": null or {"folder": name, "model":
name}, "granted": null or [[tenant, workspace, [principal ...]] ...]}``, and writes one line an answer:
``{"begins": code, "subject": text}`` before each check, then each finding, and ``{"ends": true}`` last. It needs no
key.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from journal import limits
from journal.ownmodule import own_command, own_environment
from journal.store.lmdb import tables
from tools.cli.checkup import semantic
from tools.cli.checkup.finding import Finding, Severity, fault, ok
from tools.cli.checkup.granting import Granted
from tools.cli.checkup.running import failed, late
from tools.damage import RESTORE

if TYPE_CHECKING:
    from projections.vector.providers.settings import Settings

# --- the parent's side ---------------------------------------------------------------------------


def look_inside(
    store: Path, anchor: Path | None = None, settings: Settings | None = None, granted: Granted | None = None
) -> Iterator[Finding]:
    """Yield what a child process finds in a store, its all-clears too.

    ``settings`` are those of its embeddings; ``granted`` is who has tools where by grant events alone.
    """
    asked = {
        "store": str(store), "map_size_bytes": tables.MAP_SIZE_BYTES, "anchor": None if anchor is None else str(anchor),
        "embeddings": None if settings is None else semantic.embeddings_of(settings),
        "granted": granted,
    }  # fmt: skip
    request = json.dumps(asked) + "\n"
    try:
        done = subprocess.run(  # noqa: S603 - our own module
            own_command(__name__), input=request.encode(), capture_output=True, check=False, env=own_environment(),
            timeout=limits.CHECK_STORE_DEADLINE_SECONDS,
        )  # fmt: skip
        stdout, returncode = done.stdout, done.returncode
    except subprocess.TimeoutExpired as error:
        stdout, returncode = error.stdout or b"", None
    yield from _understood(stdout.decode(errors="replace"), returncode, store)


def _understood(stdout: str, returncode: int | None, store: Path) -> Iterator[Finding]:
    code, subject, ended = "STORE_CONTENTS", str(store), False
    for line in stdout.splitlines():
        try:
            answer = json.loads(line)
        except ValueError:
            break  # the last line of a child that died
        if "begins" in answer:
            code, subject = answer["begins"], answer["subject"]
        elif "ends" in answer:
            ended = True
        else:
            yield Finding(**{**answer, "severity": Severity(answer["severity"])})
    if returncode is None:
        yield late(code, subject, limits.CHECK_STORE_DEADLINE_SECONDS)
    elif not ended:
        yield fault(
            "STORE_DAMAGED", subject, f"reading it ended the process that did (check {code}, exit code {returncode})",
            f"keep the damaged one: {RESTORE}",
        )  # fmt: skip


# --- the child's side ----------------------------------------------------------------------------


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def _look(
    store: Path, map_size_bytes: int, anchor: Path | None, embeddings: dict[str, str] | None, granted: Granted | None
) -> None:
    from tools.cli.checkup.contents import checks

    for check in checks(store, map_size_bytes, anchor, embeddings, granted):
        _say({"begins": check.code, "subject": check.subject})
        found = False
        try:
            for finding in check.look():
                _say(finding.as_json())
                found = True
        except Exception as error:  # noqa: BLE001 - whatever it was, the other checks go on
            _say(failed(check.code, check.subject, error).as_json())
            found = True
        if not found:
            _say(ok(check.code, check.subject, check.all_clear).as_json())


def main() -> None:
    """Look into the store that stdin names."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a SIGBUS is an answer, not an accident
    request = json.loads(sys.stdin.readline())
    anchor = request.get("anchor")
    _look(
        Path(request["store"]),
        request["map_size_bytes"],
        None if anchor is None else Path(anchor),
        request["embeddings"],
        request["granted"],
    )
    _say({"ends": True})


if __name__ == "__main__":
    main()
