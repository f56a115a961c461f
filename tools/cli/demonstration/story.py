"""The story that ``engram demo`` tells, each sentence checked before it is printed."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import click

from journal.errors import EngramError
from journal.log import Journal
from journal.rootkey import load_root_key
from journal.scope import Scope
from tools.cli.demonstration.bytes_scan import files_of, hits, words_of
from tools.cli.demonstration.client import ServedClient, connected, engram_words
from tools.cli.demonstration.source import PURPOSE, Record
from tools.cli.invocation import word
from tools.host.capabilities import CAPTURE, FORGET, GET, REQUEST_ADMISSION, SEARCH
from tools.host.file import load_host_file

_ENGLISH = "why do wrapped keys live in a slot file"
_KOREAN = "조사를 떼어 낸 낱말"
_FORGOTTEN = "0006"
_ERASED = ("the record", "the request's arguments")
_INVALIDATION = {
    "complete": "the projections were rebuilt without it",
    "pending": "the projections are still being rebuilt without it",
}


class Failed(Exception):
    """Something that the demo says did not hold. It exists so that the command exits 1 with one sentence."""


def run(place: Path, sources: list[Path]) -> None:
    """Tell the story in an empty directory over these decision records."""
    try:
        anyio.run(_Story(place, [Record(path) for path in sources]).tell)
    except BaseExceptionGroup as group:
        raise Failed("; ".join(_leaves(group))) from group
    except (LookupError, subprocess.SubprocessError, EngramError) as error:
        raise Failed(str(error)) from error


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[str]:
    found = []
    for error in group.exceptions:
        found += _leaves(error) if isinstance(error, BaseExceptionGroup) else [str(error) or type(error).__name__]
    return found


class _Story:
    """One telling."""

    def __init__(self, place: Path, records: list[Record]) -> None:
        self._place = place
        self._store = place / "store"
        self._config = place / "engram.toml"
        self._records = records
        self._ids: dict[str, str] = {}  # file name -> record id
        self._candidates: dict[str, str] = {}
        self._words: set[str] = set()  # of the record to be forgotten, that the store's formats do not use themselves

    async def tell(self) -> None:
        self._init()
        async with _tolerating_a_killed_server(), connected(self._config) as client:
            await self._capture(client)
            await self._admit(client)
            await self._find(client)
            await self._forget(client)
            self._say("kill", "The server gets SIGKILL.")
            client.kill_server()
        async with connected(self._config) as client:
            await self._after_restart(client)
        self._rebuild()
        self._audit()

    # --- the chapters ---------------------------------------------------------------------------------

    def _init(self) -> None:
        self._engram(
            "init", "--store", str(self._store), "--config", str(self._config), "--tenant", "demo",
            "--workspace", "decisions",
            "--principal", "visitor", "--purpose", PURPOSE, "--policy", "accept-asserted",
        )  # fmt: skip
        self._say(
            "init",
            "A store, its keys and a host file. Policy: what an agent asserts is admitted, after a secret screen.",
        )

    async def _capture(self, client: ServedClient) -> None:
        tools = await client.tools()
        self._check(CAPTURE in tools, "the server lists its tools")
        doomed = self._doomed()
        for record in self._records:
            if record is not doomed:
                await self._capture_one(client, record)
        await self._search(client, _ENGLISH)  # every file that the store will have is there now
        text = words_of(doomed.path.read_text(encoding="utf-8"))
        self._words = text - set(hits(self._store, text))
        await self._capture_one(client, doomed)
        found = await self._search(client, _ENGLISH)
        self._check(not found, "a pending candidate cannot be found")
        self._say(
            "capture", f"{len(self._records)} decision records of this project, with line locators and true digests."
        )
        self._say("search", f"{_ENGLISH!r} finds nothing: candidates are sealed and pending.")

    async def _capture_one(self, client: ServedClient, record: Record) -> None:
        value = await client.value(CAPTURE, record.capture())
        self._check(value["status"] == "committed_pending", "each capture is pending")
        self._candidates[record.path.name] = value["candidate_id"]

    async def _admit(self, client: ServedClient) -> None:
        for name, candidate_id in self._candidates.items():
            asked = {"candidate_id": candidate_id, "idempotency_key": f"demo-admit-{name}"}
            outcome = (await client.value(REQUEST_ADMISSION, asked))["outcome"]
            self._check(outcome["status"] == "accepted", f"{name} is admitted")
            self._ids[name] = outcome["record_id"]
        self._say("admit", f"All {len(self._ids)} are admitted, and have record ids now.")

    async def _find(self, client: ServedClient) -> None:
        for query in (_ENGLISH, _KOREAN):
            found = await self._search(client, query)
            self._check(bool(found), f"{query!r} finds something")
            self._say("search", f"{query!r} finds first: {self._title(found[0]['record'])}")
        slot_file = self._named(_FORGOTTEN)
        self._check(
            (await self._search(client, _ENGLISH))[0]["record"]["record_id"] == slot_file,
            "English search ranks it first",
        )
        record = (await client.value(GET, {"record_id": slot_file, "purpose_ref": PURPOSE}))["record"]
        source = record["citations"][0]
        self._say(
            "get",
            f"{slot_file[:16]}… cites {source['source_ref']} lines {source['locator']['value']}, "
            f"{source['content_digest'][:20]}…",
        )

    async def _forget(self, client: ServedClient) -> None:
        record_id = self._named(_FORGOTTEN)
        candidate_id = next(self._candidates[name] for name in self._candidates if name.startswith(_FORGOTTEN))
        self._check(self._opens(candidate_id), "its content opens with the store's keys")
        self._say("look", "Its content opens with the store's own keys.")
        self._check(not hits(self._store, self._words), "no file holds a word of it")
        await self._forget_with_approval(client, record_id)
        self._check(not self._opens(candidate_id), "its content opens no more")
        gone = await client.call(GET, {"record_id": record_id, "purpose_ref": PURPOSE})
        self._check(gone.get("error", {}).get("code") == "NOT_FOUND", "get does not find it")
        found = [packet["record"]["record_id"] for packet in await self._search(client, _ENGLISH)]
        self._check(record_id not in found, "search does not find it")
        self._say(
            "after", "get says NOT_FOUND, search no longer finds it, and the store's own keys open its content no more."
        )
        self._scan(self._words)

    async def _forget_with_approval(self, client: ServedClient, record_id: str) -> None:
        answer: dict[str, Any] = {}

        async def ask() -> None:
            wanted = {"record_id": record_id, "idempotency_key": "demo-forget-0006", "reason_ref": "reason:demo"}
            answer.update(await client.value(FORGET, wanted))

        async with anyio.create_task_group() as beside:
            beside.start_soon(ask)
            confirmation_id = await anyio.to_thread.run_sync(self._waiting_confirmation)
            self._say(
                "forget", f"The agent asks and waits. A person runs: {word()} confirm approve {confirmation_id[:21]}…"
            )
            await anyio.to_thread.run_sync(
                self._engram, "confirm", "approve", confirmation_id, "--config", str(self._config)
            )
        receipt = answer["receipt"]
        self._check(receipt["to_state"] == "tombstoned", "it is tombstoned")
        self._say(
            "forgotten",
            f"{receipt['from_state']} -> {receipt['to_state']} at cursor {receipt['cursor']}; key destroyed; "
            f"{_INVALIDATION[answer['projection_invalidation']]} "
            f"(projection_invalidation: {answer['projection_invalidation']}).",
        )

    def _scan(self, words: set[str]) -> None:
        count = len(files_of(self._store))
        self._check(not hits(self._store, self._words), "no file holds a word of it")
        planted = self._place / "planted"
        planted.mkdir()
        journal = (self._store / "journal" / "data.mdb").read_bytes()
        (planted / "data.mdb").write_bytes(journal + " ".join(words).encode())
        self._check(set(hits(planted, words)) == words, "the scan finds words where they are")
        self._say(
            "scan",
            f"{len(words)} words of it, {count} files of the store, before and after: 0 hits "
            f"(control: in a copy of the journal with the words planted the same scan finds all {len(words)}).",
        )

    async def _after_restart(self, client: ServedClient) -> None:
        found = await self._search(client, _KOREAN)
        self._check(bool(found), "the other records are there after the restart")
        gone = await client.call(GET, {"record_id": self._named(_FORGOTTEN), "purpose_ref": PURPOSE})
        self._check(gone["ok"] is False, "the forgotten one stays forgotten")
        self._say("restart", "A new server finds the others; the forgotten one stays forgotten.")

    def _rebuild(self) -> None:
        before = self._digests()
        shutil.rmtree(self._store / "projections")
        self._engram("projections", "rebuild", "--all", "--config", str(self._config))
        after = self._digests()
        self._check(bool(before) and before == after, "digests are equal after the rebuild")
        names = ", ".join(f"{name} {digest[:18]}…" for name, digest in sorted(after.items()))
        self._say("rebuild", f"projections/ deleted and rebuilt from the journal; equal digests: {names}")

    def _audit(self) -> None:
        report = json.loads(self._engram("audit", "--config", str(self._config), "--json"))
        self._check(report["ok"] is True, "the audit is clean")
        scope = report["scopes"][0]
        bodies = scope["bodies"]
        self._check(bodies["erased"] == len(_ERASED), f"{' and '.join(_ERASED)} are erased, and nothing else")
        self._check(bodies["missing"] == 0, "nothing is missing")
        self._say(
            "audit",
            f"{scope['events']} events chained; sealed parts: {bodies['present']} present, {bodies['erased']} lawfully "
            f"erased: {' and '.join(_ERASED)}, none missing; projections equal a fresh replay.",
        )

    # --- what the chapters use --------------------------------------------------------------------------

    async def _search(self, client: ServedClient, query: str) -> list[dict[str, Any]]:
        value = await client.value(SEARCH, {"query": query, "purpose_ref": PURPOSE, "limit": 3})
        found: list[dict[str, Any]] = value["records"]
        return found

    def _waiting_confirmation(self) -> str:
        for _ in range(100):
            waiting = json.loads(self._engram("confirm", "list", "--config", str(self._config), "--json"))
            if waiting:
                return str(waiting[0]["confirmation_id"])
        raise Failed("the forgetting asked for no confirmation")

    def _digests(self) -> dict[str, str]:
        status = json.loads(self._engram("projections", "status", "--config", str(self._config), "--json"))
        return {projection["name"]: projection["digest"] for projection in status}

    def _opens(self, candidate_id: str) -> bool:
        """Whether a candidate's content opens with the store's keys, read beside the running server."""
        host_file = load_host_file(self._config)
        journal = Journal.open(host_file.store_path, load_root_key(host_file.root_key), readonly=True)
        try:
            return journal.payload(Scope.of("demo", "decisions"), candidate_id) is not None
        finally:
            journal.close()

    def _doomed(self) -> Record:
        """Return the record that will be forgotten."""
        return next(record for record in self._records if record.path.name.startswith(_FORGOTTEN))

    def _named(self, number: str) -> str:
        return next(record_id for name, record_id in self._ids.items() if name.startswith(number))

    @staticmethod
    def _title(record: dict[str, Any]) -> str:
        texts = {component["component_id"]: component["text"] for component in record["components"]}
        return str(texts[record["primary_component_id"]].splitlines()[0])

    @staticmethod
    def _engram(*arguments: str) -> str:
        words = engram_words(*arguments)
        done = subprocess.run(words, capture_output=True, text=True, check=False, cwd="/")  # noqa: S603 - this very program
        if done.returncode:
            raise Failed(f"engram {' '.join(arguments[:2])} exited {done.returncode}: {done.stderr.strip()[-300:]}")
        return done.stdout

    @staticmethod
    def _check(holds: bool, sentence: str) -> None:  # noqa: FBT001 - reads as an assertion
        if not holds:
            raise Failed(f"it does not hold that {sentence}")

    @staticmethod
    def _say(chapter: str, sentence: str) -> None:
        click.echo(f"{chapter:>9}  {sentence}")


class _tolerating_a_killed_server(contextlib.AbstractAsyncContextManager[None]):  # noqa: N801 - used as a verb
    """The client of a server that was killed complains when it is closed; that is what was asked for."""

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        return isinstance(error, (BrokenPipeError, anyio.BrokenResourceError, anyio.ClosedResourceError))
