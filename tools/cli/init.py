"""engram init: a store, its root key and a host file; whole, or nothing."""

from __future__ import annotations

import os
import secrets
import shutil
import unicodedata
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import click

from journal import layout, limits
from journal.clock import SystemClock, instant
from journal.errors import InvalidSchema, StoreUnavailable
from journal.log import Journal
from journal.rootkey import create_root_key_file, flush_directory, load_root_key
from journal.scope import Scope
from tools.cli.choices import Named
from tools.cli.failures import CannotRun, Refused
from tools.cli.invocation import word
from tools.cli.opening import check_store, os_user_name
from tools.cli.options import config_file, config_option, json_option
from tools.cli.output import give
from tools.cli.terminal import fields, one_line, wrapped
from tools.host.capabilities import ALL_TOOLS
from tools.host.exceptions import HostFileError
from tools.host.file import load_host_file
from tools.host.place import default_host_file
from tools.host.sections import POLICIES_ALONE
from tools.host.template import render_host_file

KEY_SUFFIX = ".key"
DEFAULT_NAME = "default"
DEFAULT_PURPOSE = "purpose:memory"
_CLIENTS = ("claude-code", "codex", "gemini")
_KEEP_THE_KEY = (
    "Whoever holds the root key and the store can read everything; without the key nobody can, you included: "
    "keep a copy of it elsewhere. What is bound to every call stands in the host file."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be made, every path absolute."""

    store: Path
    host_file: Path
    scope: Scope
    principal: str
    purposes: tuple[str, ...]
    tools: tuple[str, ...]
    policy: str

    @property
    def root_key(self) -> Path:
        """The root key's file: beside the host file, so that a copy of the store alone tells nothing."""
        return self.host_file.with_name(self.host_file.name.removesuffix(".toml") + KEY_SUFFIX)

    def text(self) -> str:
        """Return the host file's text."""
        return render_host_file(
            store=self.store, root_key_file=self.root_key, scope=self.scope, principal=self.principal,
            purposes=self.purposes, tools=self.tools, policy=self.policy,
        )  # fmt: skip


@click.command()
@click.option(
    "--store", metavar="DIR", type=click.Path(path_type=Path),
    help="The store's folder, new or empty; else the user's data folder.",
)  # fmt: skip
@config_option
@click.option("--tenant", metavar="T", default=DEFAULT_NAME, show_default=True, help="The tenant's name.")
@click.option("--workspace", metavar="W", default=DEFAULT_NAME, show_default=True, help="The workspace's name.")
@click.option("--principal", metavar="P", help="Who is answerable for what the agent does; else the user's name.")
@click.option(
    "--purpose", "purposes", metavar="REF", multiple=True, default=(DEFAULT_PURPOSE,), show_default=True,
    help="A purpose that calls may name; may be repeated.",
)  # fmt: skip
@click.option(
    "--grant", "tools", metavar="TOOL", multiple=True, type=Named("tool", ALL_TOOLS),
    help="A tool to grant; may be repeated. Without it all are granted.",
)  # fmt: skip
@click.option(
    "--policy", metavar="NAME", type=Named("policy", POLICIES_ALONE), default=POLICIES_ALONE[0], show_default=True,
    help="Who admits a candidate: adjudicate (a person) or accept-asserted (nobody needs to).",
)  # fmt: skip
@json_option
def command(
    *, store: Path | None, tenant: str, workspace: str, principal: str | None, purposes: tuple[str, ...],
    tools: tuple[str, ...], policy: str,
) -> None:  # fmt: skip
    """Create a store, its root key and a host file. Nothing that exists is overwritten."""
    plan = Plan(
        store=_absolute(store if store is not None else _default_store()),
        host_file=_absolute(_named_host_file()),
        scope=_scope(tenant, workspace),
        principal=_reference("--principal", principal if principal is not None else os_user_name()),
        purposes=tuple(_reference("--purpose", each) for each in dict.fromkeys(purposes)),
        tools=tuple(dict.fromkeys(tools)) or ALL_TOOLS,
        policy=policy,
    )
    _refuse_what_exists(plan)
    make(plan)
    give(_facts(plan), lambda: _told(plan, all_granted=not tools))


# --- from words to a plan ---------------------------------------------------------------------------


def _named_host_file() -> Path:
    """Return where the host file goes: --config, else $ENGRAM_CONFIG, else the user's configuration folder."""
    named = config_file()
    if named is not None:
        return named
    from_environment = os.environ.get("ENGRAM_CONFIG", "")
    return Path(from_environment) if from_environment else default_host_file()


def _default_store() -> Path:
    import platformdirs

    return platformdirs.user_data_path("engram") / "store"


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path.expanduser()))  # noqa: PTH100 - resolve() would follow links, which may change


def _scope(tenant: str, workspace: str) -> Scope:
    try:
        return Scope.of(tenant, workspace)
    except (InvalidSchema, UnicodeEncodeError) as error:
        text = f"--tenant and --workspace are names of 1 to {limits.REF_MAX_BYTES} bytes of UTF-8 in NFC"
        raise click.UsageError(text) from error


def _reference(option: str, text: str) -> str:
    size_bytes = len(text.encode(errors="replace"))
    is_text = unicodedata.normalize("NFC", text) == text and text.isprintable()
    if not 1 <= size_bytes <= limits.REF_MAX_BYTES or not is_text:
        raise click.UsageError(f"{option} is a name of 1 to {limits.REF_MAX_BYTES} bytes of UTF-8 in NFC")
    return text


def _refuse_what_exists(plan: Plan) -> None:
    """Refuse to overwrite, and to put the key where the store is.

    Raises:
        Refused: something stands where something would be made. CannotRun: it cannot be seen whether something does.
    """
    with _place("the host file", plan.host_file, "--config"):
        if plan.host_file.is_file():
            _refuse_second(plan)
        for path in (plan.host_file, plan.root_key):
            if path.exists() or path.is_symlink():
                raise Refused(f"{path} exists; nothing is overwritten")
    with _place("the store", plan.store, "--store"):
        if plan.store.is_symlink() or (plan.store.exists() and not plan.store.is_dir()):
            raise Refused(f"{plan.store} exists and is no folder; nothing is overwritten")
        if plan.store.is_dir() and not layout.is_begun(plan.store):
            further = "; for a further host file on this store, copy the first one and change its principal"
            is_store = (plan.store / layout.STORE_FILE).exists()
            raise Refused(f"{plan.store} is not empty; nothing is overwritten{further if is_store else ''}")
    if plan.host_file.resolve().is_relative_to(plan.store.resolve()):
        raise click.UsageError("--config lies inside --store: the root key beside it must not stand in the store")


def _refuse_second(plan: Plan) -> None:
    """Refuse where the host file that is there is one, and say what is to be done with it."""
    try:
        standing = load_host_file(plan.host_file)
    except HostFileError:
        return
    try:
        check_store(standing)
    except StoreUnavailable as gone:
        raise Refused(gone.detail or gone.message()) from None
    raise Refused(
        f"memory is set up here already: {plan.host_file} names the store {standing.store_path}; "
        f"next: {word()} connect {_CLIENTS[0]}{_config(plan)} (or {', '.join(_CLIENTS[1:])})"
    )


@contextmanager
def _place(what: str, path: Path, option: str) -> Iterator[None]:
    """Tell a failure by what was to be made, its place and the option that names another one.

    Raises:
        CannotRun: the system refused. FileExistsError, HostFileError: as they were raised.
    """
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise CannotRun(f"{what} {path} cannot be made ({reason}): choose another place with {option}") from error


# --- making it --------------------------------------------------------------------------------------


def make(plan: Plan) -> None:
    """Make store, root key and host file. The host file comes last: while it is not there, nothing uses the rest.

    Raises:
        Refused: something appeared meanwhile. CannotRun, StoreUnavailable: it cannot be made. In every case what was
        made is removed again, and nothing else.
    """
    try:
        with ExitStack() as undo:
            with _place("the host file", plan.host_file, "--config"):
                _make_folder(plan.host_file.parent, undo)
            with _place("the store", plan.store, "--store"):
                _make_folder(plan.store, undo)
                _make_store(plan.store, undo)
            with _place("the root key", plan.root_key, "--config"):
                create_root_key_file(plan.root_key)
                undo.callback(plan.root_key.unlink)
            with _place("the host file", plan.host_file, "--config"):
                _write_host_file(plan)
            undo.pop_all()
    except FileExistsError as error:
        raise Refused("something appeared where the store, the key or the host file was to be made") from error


def _make_folder(folder: Path, undo: ExitStack) -> None:
    """Make a folder that only the user can enter, with those above it that are missing."""
    for each in reversed([each for each in (folder, *folder.parents) if not each.exists()]):
        each.mkdir(mode=0o700)
        undo.callback(_remove_empty, each)


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):  # of two at once the other may have put something into it
        folder.rmdir()


def _make_store(store: Path, undo: ExitStack) -> None:
    """Make the store in its folder."""
    try:
        layout.create(store, instant(SystemClock().now()))
    except FileExistsError:
        raise  # of two at once one makes the first name; the other is refused there, and must remove nothing
    except BaseException:
        _remove_store(store)
        raise
    undo.callback(_remove_store, store)


def _remove_store(store: Path) -> None:
    for name in (layout.JOURNAL, layout.KEYS, layout.PROJECTIONS):
        shutil.rmtree(store / name, ignore_errors=True)
    (store / layout.STORE_FILE).unlink(missing_ok=True)


def _write_host_file(plan: Plan) -> None:
    """Write the host file beside its place, open the store through it, and only then put it in its place."""
    draft = plan.host_file.with_name(f".{plan.host_file.name}.{secrets.token_hex(6)}")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(plan.text())
            file.flush()
            os.fsync(file.fileno())
        _try_out(plan, draft)
        os.link(draft, plan.host_file)  # unlike rename, link never replaces
    finally:
        draft.unlink()
    flush_directory(plan.host_file.parent)


def _try_out(plan: Plan, draft: Path) -> None:
    """Open the new store as every command will. A network file system, for one, is refused here and not later."""
    try:
        host_file = load_host_file(draft)
    except HostFileError as error:  # the draft's name is nobody's business
        raise CannotRun(str(error).replace(str(draft), str(plan.host_file))) from error
    with _place("the store", plan.store, "--store"):
        Journal.open(host_file.store_path, load_root_key(host_file.root_key)).close()


# --- telling it -------------------------------------------------------------------------------------


def _facts(plan: Plan) -> dict[str, object]:
    return {
        "store": str(plan.store),
        "config": str(plan.host_file),
        "root_key": str(plan.root_key),
        "tenant_id": plan.scope.tenant_id,
        "workspace_id": plan.scope.workspace_id,
        "principal": plan.principal,
        "purposes": list(plan.purposes),
        "granted": list(plan.tools),
        "enabled": True,
        "policy": plan.policy,
    }


def _told(plan: Plan, *, all_granted: bool) -> str:
    grants = "all tools of both facilities are granted" if all_granted else f"granted: {', '.join(plan.tools)}"
    who_admits = {
        "adjudicate": f"a person admits each candidate: {word()} candidates list",
        "accept-asserted": "every candidate without a secret in it is admitted",
    }
    config = _config(plan)
    return "\n".join(
        [
            fields(
                [
                    ("store", str(plan.store)),
                    ("host file", str(plan.host_file)),
                    ("root key", str(plan.root_key)),
                    ("scope", f"{plan.scope.tenant_id} / {plan.scope.workspace_id}, principal {plan.principal}"),
                    ("purposes", ", ".join(plan.purposes)),
                    ("memory", f"on: host and tenant have opted in; {grants}"),
                    ("policy", f"{plan.policy}: {who_admits[plan.policy]}"),
                ]
            ),
            "",
            wrapped(_KEEP_THE_KEY),
            "",
            "Next, one of:",
            *(f"  {word()} connect {client}{config}" for client in _CLIENTS),
            "Then, when something waits for a person:",
            f"  {word()} candidates list{config}",
            f"  {word()} confirm list{config}",
        ]
    )


def _config(plan: Plan) -> str:
    """Return the ``--config`` that the next commands need, with a blank before it; empty where they look anyway."""
    import shlex

    return "" if plan.host_file == default_host_file() else f" --config {one_line(shlex.quote(str(plan.host_file)))}"
