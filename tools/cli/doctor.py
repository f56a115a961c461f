"""engram doctor: the likeliest mistakes, looked for; each with what is wrong and the mend. It never writes.

It works with a broken host file, beside a live server, and on a copy: what it cannot look at, it says.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import click

from journal import limits
from journal.extras import DISTRIBUTION
from tools.cli import terminal
from tools.cli.checkup import (
    anchoring,
    clients,
    granting,
    hostfile,
    machine,
    overhttp,
    policy,
    processes,
    rootkey,
    semantic,
    storeplace,
    telemetry,
    walking,
)
from tools.cli.checkup.causes import joined
from tools.cli.checkup.child import look_inside
from tools.cli.checkup.finding import Finding, Severity, is_sound
from tools.cli.checkup.running import Check, run
from tools.cli.checkup.situation import Situation, situation
from tools.cli.counting import counted
from tools.cli.failures import REFUSED
from tools.cli.options import config_file, config_option, json_option
from tools.cli.output import give
from tools.host.file import HostFile

_KEY_DEADLINE_SECONDS = 35  # a key command may take 30 and is then ended (journal.rootkey)


@click.command()
@config_option
@json_option
@click.pass_context
def command(ctx: click.Context) -> None:
    """Look for the likeliest mistakes and say how to mend them. Writes nothing.

    Exit codes: 0 no fault (there may be notes and warnings), 1 faults, 2 could not run.
    """
    findings = joined(list(examine(config_file())))
    sound = is_sound(findings)
    give({"ok": sound, "checks": [each.as_json() for each in findings]}, lambda: "\n".join(_told(findings)))
    ctx.exit(0 if sound else REFUSED)


def examine(named: Path | None) -> Iterator[Finding]:
    """Yield what every check says, in a stable order; ``named`` is what ``--config`` named."""
    known: list[Situation] = []

    def host_file() -> Iterator[Finding]:
        known.append(situation(named))
        yield from hostfile.whole(known[0])

    subject = "host file"
    yield from run(Check("HOST_FILE", str(named or subject), "it can be used", host_file))
    look_at = known[0] if known else Situation(named=named, environ=os.environ, directory=Path.cwd())
    for check in _checks(look_at):
        yield from run(check)


def _checks(look_at: Situation) -> Iterator[Check]:
    host = str(look_at.path or "host file")
    if look_at.path is not None:
        yield Check("HOST_FILE_OWNED", host, "nobody else could write it", partial(hostfile.permissions, look_at))
        yield Check("HOST_FILES_AGREE", host, "no other one disagrees", partial(hostfile.others, look_at))
    if look_at.host_file is not None:
        yield Check("HOST_ALLOWS", host, "memory is on, tools are allowed", partial(hostfile.allowed, look_at))
        yield Check("SCOPE_FILE", str(look_at.directory), "names no other workspace, or a listed one",
                    partial(hostfile.scope_file, look_at))  # fmt: skip
    if look_at.root_key is not None:
        yield Check("ROOT_KEY", host, "it is there, yours alone and this store's", partial(rootkey.check, look_at),
                    _KEY_DEADLINE_SECONDS)  # fmt: skip
    if look_at.store is not None:
        yield from _store_checks(look_at.store, look_at.host_file)
    if look_at.host_file is not None:
        yield Check("CHECKPOINTS", str(look_at.host_file.store_path), "the anchor outside can be used",
                    partial(anchoring.check, look_at.host_file.store_path, look_at.host_file.anchor))  # fmt: skip
        if look_at.host_file.semantic.provider != "none":
            yield Check("SEMANTIC", "semantic.provider", "searches can ask for meaning",
                        partial(semantic.check, look_at.host_file.semantic))  # fmt: skip
    if look_at.host_file is not None:
        yield from _host_checks(look_at.host_file, look_at.environ)
    yield Check("PYTHON", "Python", "it is new enough and has 64 bits", machine.python)
    yield Check("LIBRARIES", DISTRIBUTION, "its libraries are of the versions asked for", machine.libraries)
    yield Check("LMDB_ENGINE", "lmdb", "its engine is 0.9", machine.engine)
    yield Check("PROCESS_HYGIENE", "process", "no core dumps, no open umask", machine.hygiene)
    yield Check("CLIENTS", "clients", "what they say of engram can be started", partial(clients.check, look_at))


def _host_checks(host_file: HostFile, environ: Mapping[str, str]) -> Iterator[Check]:
    """Yield the checks of what stands outside and is asked by the server: a policy, an issuer, a collector."""
    admission, over_http = host_file.admission, host_file.http
    if admission.policy in policy.OUTSIDE:
        yield Check("POLICY", "admission.policy", "it answers a question about nothing",
                    partial(policy.check, admission, environ),
                    admission.timeout_seconds + limits.CHECK_DEADLINE_SECONDS)  # fmt: skip
    if over_http.tokens or over_http.principals or over_http.jwks is not None:
        yield Check("HTTP_TOKENS", "http.tokens", "they can be read, and are long enough",
                    partial(overhttp.tokens, host_file, environ))  # fmt: skip
        yield Check("HTTP_PRINCIPALS", "http.principals", "each may call something",
                    partial(overhttp.principals, host_file))  # fmt: skip
    if over_http.jwks is not None:
        yield Check("JWKS", "http.jwks", "the issuer's keys are there", partial(overhttp.keys, host_file),
                    limits.JWKS_FETCH_SECONDS + limits.CHECK_DEADLINE_SECONDS)  # fmt: skip
    if host_file.telemetry.address(environ) is not None:
        yield Check("TELEMETRY", "telemetry", "spans can be sent", telemetry.check)


def _store_checks(store: Path, host_file: HostFile | None) -> Iterator[Check]:
    subject = str(store)
    anchor, settings = (None, None) if host_file is None else (host_file.anchor, host_file.semantic)
    granted = None if host_file is None else granting.by_events(host_file)
    yield Check("STORE", subject, "it is a store of this format", partial(storeplace.is_store, store))
    yield Check("FILE_SYSTEM", subject, "it overwrites in place, on this machine", partial(storeplace.medium, store))
    yield Check("DISK", subject, "its disk has room", partial(storeplace.room, store))
    yield Check("STORE_OWNED", subject, "it is yours alone", partial(storeplace.permissions, store))
    yield Check("LOCKS", subject, "nobody keeps a lock", partial(processes.writer, store))
    yield Check("PROCESSES", subject, "none that has it open is stopped", partial(processes.stopped, store))
    yield Check("CLEAN_ENDS", subject, "whoever had it open closed it", partial(processes.ends, store))
    yield Check("JOURNAL_WHOLE", subject, "its journal is as it was closed, or was walked and is whole",
                partial(walking.walked, store),
                2 * limits.CHECK_WALK_SECONDS + limits.CHECK_DEADLINE_SECONDS)  # fmt: skip
    yield Check("STORE_CONTENTS", subject, "nothing was ever stored",
                partial(look_inside, store, anchor, settings, granted),
                limits.CHECK_STORE_DEADLINE_SECONDS + limits.CHECK_DEADLINE_SECONDS)  # fmt: skip


def _told(findings: list[Finding]) -> Iterator[str]:
    """Yield the findings for a person: the worst first, what is well in one line each."""
    for finding in sorted(findings, key=lambda each: -each.severity.rank):
        line = f"{finding.severity.value:<8} {finding.code}  {finding.subject}: {finding.detail}"
        yield terminal.wrapped(terminal.one_line(line), 9)
        if finding.mend:
            yield terminal.wrapped(terminal.one_line(f"{'':8} mend: {finding.mend}"), 9)
    numbers = {severity: sum(each.severity is severity for each in findings) for severity in Severity}
    del numbers[Severity.OK]
    parts = [counted(count, f"{severity.value}s") for severity, count in numbers.items() if count]
    yield ", ".join(parts) or "no mistake found"
