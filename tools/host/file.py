"""The host file: what the host binds to every call.

TOML, closed, read once at the start. Whatever is wrong with it is one clear sentence and exit code 2; nothing in it is
guessed at, and no value that could be a key is ever quoted.
"""

from __future__ import annotations

import os
import tomllib
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import structs

from journal import limits
from journal.actors import is_reserved
from journal.errors import InvalidSchema
from journal.rootkey import RootKeySource
from journal.scope import Scope
from projections.vector.providers.settings import Settings
from tools.host import admission, http, place, sections, semantic
from tools.host.admission import Admission, Verification
from tools.host.capabilities import ALL_TOOLS, CONFIRMABLE, nearest
from tools.host.closed import convert
from tools.host.conversation import flaw_of
from tools.host.exceptions import HostFileError
from tools.host.rates import Rates
from tools.host.sections import (
    ConfirmationSection,
    ConversationSection,
    Document,
    HostSection,
    PurposeSection,
    RetentionSection,
    RulesDocument,
    RuleSection,
)
from tools.host.telemetry import settings as telemetry
from tools.host.telemetry.settings import Telemetry

SCOPE_FILE_NAME = ".engram-scope"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFile:
    """A host file that holds: read, checked, its paths absolute."""

    path: Path
    store_path: Path
    root_key: RootKeySource
    host: HostSection
    workspaces: tuple[str, ...]  # every workspace that a project may name, the host's own first
    purposes: tuple[PurposeSection, ...]  # in the file's order
    granted: frozenset[str]  # tool names
    grants_by_events: bool  # the journal must grant them too
    admission: Admission
    verification: Verification
    confirmation: ConfirmationSection
    retention: RetentionSection
    packet_cap_bytes: int
    rates: Rates  # of each principal in each scope
    families: frozenset[str]
    semantic: Settings  # where embeddings come from
    conversation: ConversationSection
    http: http.Http
    telemetry: Telemetry
    anchor: Path | None = None  # where checkpoints are kept outside the store; None: this user has no such place
    checkpoint_every_events: int = limits.CHECKPOINT_EVERY_EVENTS

    @property
    def policy(self) -> str:
        """The name of the admission policy."""
        return self.admission.policy


def load_host_file(config: Path | None = None, environ: Mapping[str, str] = os.environ) -> HostFile:
    """Find, read and check the host file.

    Args:
        config: what ``--config`` named, if it did.
        environ: where ``ENGRAM_CONFIG`` is looked up.

    Raises:
        HostFileError: in one sentence, with the file, the key and the mend.
    """
    path = place.locate(config, environ)
    opened = place.read(path)
    document = convert(path, _parse(path, opened.content), Document)
    _Checks(path, document).run()
    if opened.foreign_hands is not None and (key := _command_key(document)):
        raise HostFileError(
            path, key, f"names a command, but the file {opened.foreign_hands}", "make it yours and chmod go-w it"
        )
    folder = path.parent
    return HostFile(
        path=path,
        store_path=_absolute(folder, document.store.path),
        root_key=_root_key(folder, document.keys.root),
        host=document.host,
        workspaces=_workspaces(document),
        purposes=document.purposes,
        granted=frozenset(document.grants.tools),
        grants_by_events=document.grants.mode == "events",
        admission=_admission(folder, document),
        verification=Verification(
            roots=tuple(_absolute(folder, root) for root in document.verification.roots),
            revocation_epoch=document.verification.revocation_epoch,
        ),
        confirmation=_with_absolute_command(folder, document.confirmation),
        retention=document.retention,
        packet_cap_bytes=document.limits.max_packet_bytes_cap,
        rates=Rates(document.limits.calls_per_minute, document.limits.mutations_per_minute),
        families=frozenset(document.reconciliation.families),
        semantic=semantic.settings_of(document.semantic, folder),
        conversation=document.conversation,
        http=http.http_of(document.http, lambda text: _absolute(folder, text)),
        telemetry=telemetry.telemetry_of(document.telemetry),
        anchor=_anchor(path, document),
        checkpoint_every_events=document.checkpoints.every,
    )


def workspace_of(host_file: HostFile, directory: Path) -> str:
    """Return the workspace for a working directory: the one that ``.engram-scope`` there names, else the host's.

    The file holds one line with the name; lines that start with ``#`` are comments. Only the directory itself is looked
    at, and the name must be one that the host file lists: a project chooses among the user's workspaces, no more.

    Raises:
        HostFileError: the file cannot be used, or names a workspace that is not listed.
    """
    file = directory / SCOPE_FILE_NAME
    if not file.is_file():
        return host_file.host.workspace
    mend = f"write one line with a workspace that {host_file.path} lists, or remove the file"
    try:
        with file.open("rb") as opened:
            content = opened.read(limits.SCOPE_FILE_MAX_BYTES + 1)
        lines = [line.strip() for line in content.decode().splitlines()]
    except (OSError, UnicodeDecodeError):
        raise HostFileError(file, "", "cannot be read as text", mend) from None
    names = [line for line in lines if line and not line.startswith("#")]
    if len(content) > limits.SCOPE_FILE_MAX_BYTES or len(names) != 1:
        raise HostFileError(file, "", "does not hold one name", mend)
    if names[0] not in host_file.workspaces:
        raise HostFileError(file, "", "names a workspace that the host file does not list", mend)
    return names[0]


def _workspaces(document: Document) -> tuple[str, ...]:
    return tuple(dict.fromkeys([document.host.workspace, *(each.name for each in document.workspaces)]))


def _parse(path: Path, content: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(content.decode())
    except UnicodeDecodeError:
        raise HostFileError(path, "", "is not UTF-8", "save it as UTF-8") from None
    except RecursionError:
        raise HostFileError(path, "", "nests too deep", "no setting nests more than two levels") from None
    except tomllib.TOMLDecodeError as error:
        raise HostFileError(path, "", f"is not valid TOML ({error})", "mend that line") from None


class _Checks:
    """What the types cannot say: names that must be known, lists without repeats, keys that belong together."""

    def __init__(self, path: Path, document: Document) -> None:
        self._path = path
        self._document = document

    def run(self) -> None:
        """Raise HostFileError for the first thing that is wrong."""
        document = self._document
        self._root()
        self._scopes()
        self._purposes()
        self._known("grants.tools", document.grants.tools, ALL_TOOLS)
        self._known("grants.mode", (document.grants.mode,), sections.GRANT_MODES)
        self._known("admission.policy", (document.admission.policy,), sections.POLICIES)
        self._known("verification.verifier", (document.verification.verifier,), sections.VERIFIERS)
        if (document.verification.verifier == "files") != bool(document.verification.roots):
            mend = "list folders there; of the verifier none, no roots"
            self._fail("verification.roots", "do not go with the verifier", mend)
        if wrong := admission.flaw_of(document.admission):
            self._fail(*wrong)
        self._known("confirmation.channels", document.confirmation.channels, sections.CHANNELS)
        self._known("confirmation.require", document.confirmation.require, tuple(CONFIRMABLE))
        self._known("reconciliation.families", document.reconciliation.families, sections.FAMILIES)
        self._known("semantic.provider", (document.semantic.provider,), semantic.PROVIDERS)
        if over_http := http.flaw_of(document.http, self._ceiling()):
            self._fail(*over_http)
        if said := semantic.flaw_of(document.semantic) or telemetry.flaw_of(document.telemetry):
            self._fail(*said)
        if flaw := flaw_of(document.conversation, _workspaces(document)):
            self._fail(*flaw)
        if ("elicitation" in document.confirmation.channels) is not bool(document.confirmation.trusted_clients):
            mend = 'name "elicitation" in channels and the clients that you believe in trusted_clients, or neither'
            self._fail("confirmation.trusted_clients", "and the channel elicitation need each other", mend)
        if document.confirmation.wait_seconds > document.confirmation.ttl_seconds:
            self._fail("confirmation.wait_seconds", "is over confirmation.ttl_seconds", "write at most that many")

    def _ceiling(self) -> http.Ceiling:
        return http.Ceiling(
            tenant=self._document.host.tenant,
            workspaces=_workspaces(self._document),
            tools=self._document.grants.tools,
            purposes=[purpose.ref for purpose in self._document.purposes],
        )

    def _fail(self, key: str, reason: str, mend: str) -> None:
        raise HostFileError(self._path, key, reason, mend)

    def _root(self) -> None:
        root = self._document.keys.root
        given = [each for each in (root.file, root.env, root.command, root.keyring) if each is not None]
        if len(given) != 1:
            self._fail("keys.root", f"gives {len(given)} sources", "give exactly one of file, env, command, keyring")

    def _scopes(self) -> None:
        host = self._document.host
        if len(self._document.workspaces) > limits.WORKSPACES_MAX:
            self._fail("workspaces", f"lists over {limits.WORKSPACES_MAX} workspaces", "list fewer")
        try:
            Scope.of(host.tenant, host.workspace)
        except InvalidSchema:
            self._fail("host.tenant or host.workspace", "is over 512 bytes or not NFC", "write a shorter name in NFC")
        for position, workspace in enumerate(self._document.workspaces):
            self._reference(f"workspaces[{position}].name", workspace.name)
        self._agents_name("host.principal", host.principal)
        if host.agent_id is not None:
            self._agents_name("host.agent_id", host.agent_id)

    def _agents_name(self, key: str, name: str) -> None:
        self._reference(key, name)
        if is_reserved(name):
            self._fail(key, *http.NO_AGENTS_NAME)

    def _purposes(self) -> None:
        purposes = self._document.purposes
        if not 1 <= len(purposes) <= limits.PURPOSES_MAX:
            self._fail("purposes", f"lists {len(purposes)} purposes", f"list 1 to {limits.PURPOSES_MAX}")
        references = tuple(purpose.ref for purpose in purposes)
        for position, purpose in enumerate(purposes):
            key = f"purposes[{position}]"
            self._reference(f"{key}.ref", purpose.ref)
            self._known(f"{key}.compatible", purpose.compatible, references)
        if len(set(references)) != len(references):
            self._fail("purposes", "lists a purpose twice", "list each once")

    def _reference(self, key: str, text: str) -> None:
        if len(text.encode()) > limits.REF_MAX_BYTES or unicodedata.normalize("NFC", text) != text:
            self._fail(key, "is over 512 bytes or not NFC", "write a shorter name in NFC")

    def _known(self, key: str, names: Iterable[str], known: tuple[str, ...]) -> None:
        seen: set[str] = set()
        for name in names:
            if name in seen:
                self._fail(key, f'names "{name}" twice', "name it once")
            seen.add(name)
            if name not in known:
                near = None if name in sections.LATER.get(key, ()) else nearest(name, known)
                mend = f'did you mean "{near}"?' if near else f"this release knows {', '.join(known)}"
                self._fail(key, f'names "{name}", which is not known here', mend)


def _command_key(document: Document) -> str | None:
    if document.keys.root.command is not None:
        return "keys.root.command"
    if document.confirmation.notify_command is not None:
        return "confirmation.notify_command"
    if document.admission.command is not None:
        return "admission.command"
    return None


def _anchor(path: Path, document: Document) -> Path | None:
    """Return the folder of checkpoints outside the store; one inside would be rolled back with it."""
    named = document.checkpoints.anchor
    if named is None:
        return place.default_anchor()
    anchor, store = _absolute(path.parent, named), _absolute(path.parent, document.store.path)
    if anchor == store or store in anchor.parents:
        raise HostFileError(path, "checkpoints.anchor", "lies in the store", "name a folder outside it")
    return anchor


def _absolute(folder: Path, text: str) -> Path:
    return Path(os.path.normpath(folder / Path(text).expanduser()))


def _absolute_command(folder: Path, words: tuple[str, ...]) -> tuple[str, ...]:
    """Make a program's relative path absolute, so that no working directory can supply it; a bare name is $PATH's."""
    if "/" not in words[0]:
        return words
    return (str(_absolute(folder, words[0])), *words[1:])


def _admission(folder: Path, document: Document) -> Admission:
    return admission.admission_of(
        document.admission,
        lambda text: _absolute(folder, text),
        lambda words: _absolute_command(folder, words),
        lambda name: _rules(_absolute(folder, name)),
    )


def _rules(path: Path) -> tuple[RuleSection, ...]:
    """Return the rules of a file of rules; it is as closed as the host file."""
    rules = convert(path, _parse(path, place.read(path).content), RulesDocument).rules
    if flaw := admission.rules_flaw(rules, "rules"):
        raise HostFileError(path, *flaw)
    return rules


def _with_absolute_command(folder: Path, confirmation: ConfirmationSection) -> ConfirmationSection:
    if confirmation.notify_command is None:
        return confirmation
    command = _absolute_command(folder, confirmation.notify_command)
    return structs.replace(confirmation, notify_command=command)


def _root_key(folder: Path, root: sections.RootSection) -> RootKeySource:
    if root.file is not None:
        return RootKeySource("file", (str(_absolute(folder, root.file)),))
    if root.env is not None:
        return RootKeySource("env", (root.env,))
    if root.command is not None:
        return RootKeySource("command", _absolute_command(folder, root.command))
    return RootKeySource("keyring", root.keyring or ())  # exactly one is given, checked above
