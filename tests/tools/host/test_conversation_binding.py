"""The conversation's binding: what the host file says of it, what the environment adds, and what is refused."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal import limits
from tests.tools.host.host_files import WORKSPACES, loaded
from tools.host import environment
from tools.host.binding import Binding, bind
from tools.host.conversation import ConversationBinding, machine_name, zone_of
from tools.host.exceptions import HostFileError


def said(*lines: str) -> tuple[str, str]:
    """Return the change of a host file that adds these lines to its section."""
    text = "\n".join(lines)
    return ("[conversation]\n", f"[conversation]\n{text}\n")


def bound(folder: Path, *changes: tuple[str, str], **environ: str) -> Binding:
    return bind(loaded(folder, *changes), environ=environ)


def test_a_silent_host_file_in_an_empty_environment(tmp_path):
    binding = bound(tmp_path)

    assert binding.conversation == ConversationBinding.of(binding.scope, binding.principal)
    assert binding.conversation.user == {"somebody"}
    assert binding.conversation.device == os.uname().nodename
    assert binding.conversation.zone is None
    assert (binding.conversation.short_term_days, binding.conversation.short_term_tokens) == (3, 8_000)
    assert binding.conversation.brief_max_chars == 6_000


def test_everything_can_be_said(tmp_path):
    conversation = bound(
        tmp_path,
        WORKSPACES,
        ("users = []", 'users = [["anna", "안나"], ["somebody", "somebody-laptop"]]'),
        ("brief_max_chars = 6000", "brief_max_chars = 20000"),
        said(
            'workspace = "side"', 'time_zone = "Asia/Seoul"', 'device = "책상"', 'agent_key = "persona"',
            "short_term_days = 30", "short_term_tokens = 100",
        ),
        AGENT_KEY="another", SHORT_TERM_DAYS="7", SHORT_TERM_TOKEN_LIMIT="500",
    ).conversation  # fmt: skip

    assert (conversation.scope.tenant_id, conversation.scope.workspace_id) == ("tenant", "side")
    assert conversation.user == {"somebody", "somebody-laptop"}
    assert conversation.zone == zone_of("Asia/Seoul")
    assert (conversation.device, conversation.agent_key) == ("책상", "persona")
    assert (conversation.short_term_days, conversation.short_term_tokens) == (30, 100)
    assert conversation.brief_max_chars == 20_000


def test_it_follows_the_chosen_workspace_unless_one_is_named(tmp_path):
    (tmp_path / ".engram-scope").write_text("side")
    host_file = loaded(tmp_path, WORKSPACES)
    assert bind(host_file, tmp_path).conversation.scope.workspace_id == "side"
    assert bind(host_file, workspace="옆").conversation.scope.workspace_id == "옆"

    fixed = loaded(tmp_path, WORKSPACES, said('workspace = "옆"'))
    moved = bind(fixed, tmp_path)
    assert (moved.scope.workspace_id, moved.conversation.scope.workspace_id) == ("side", "옆")


def test_a_principal_that_no_list_names_is_alone(tmp_path):
    assert bound(tmp_path, ("users = []", 'users = [["a", "b"]]')).conversation.user == {"somebody"}


@pytest.mark.parametrize(
    ("change", "key", "word"),
    [
        (said('workspace = "elsewhere"'), "conversation.workspace", "[[workspaces]]"),
        (("users = []", 'users = [["a", "b"], ["b", "c"]]'), "conversation.users[1]", "name each once"),
        (("users = []", 'users = [["a", "a"]]'), "conversation.users[0]", "name each once"),
        (("users = []", 'users = [["a"]]'), "conversation.users", "2 to 64 principals"),
        (("users = []", f"users = [{[str(n) for n in range(65)]}]"), "conversation.users", "2 to 64 principals"),
        (("users = []", 'users = ["a", "b"]'), "conversation.users", "2 to 64 principals"),
        (("users = []", 'users = [["a", "e\u0301"]]'), "conversation.users[0]", "NFC"),
        (said('time_zone = "Mars/Olympus"'), "conversation.time_zone", "Asia/Seoul"),
        (said('time_zone = "../etc/passwd"'), "conversation.time_zone", "Asia/Seoul"),
        (said('time_zone = "America"'), "conversation.time_zone", "Asia/Seoul"),
        (said(f'device = "{"d" * 513}"'), "conversation.device", "shorter"),
        (said('agent_key = ""'), "conversation.agent_key", "persona"),
        (said("short_term_days = 0"), "conversation.short_term_days", "1 to 30"),
        (said("short_term_days = 31"), "conversation.short_term_days", "1 to 30"),
        (said("short_term_tokens = 99"), "conversation.short_term_tokens", "100 to 100000"),
        (said("short_term_tokens = 100001"), "conversation.short_term_tokens", "100 to 100000"),
        (("brief_max_chars = 6000", "brief_max_chars = 3999"), "conversation.brief_max_chars", "4000 to 20000"),
        (("brief_max_chars = 6000", "brief_max_chars = 20001"), "conversation.brief_max_chars", "4000 to 20000"),
        (said('timezone = "UTC"'), "conversation.timezone", "conversation.time_zone"),
        (said("search_fallback_threshold = 0.3"), "conversation.search_fallback_threshold", "remove it"),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path, change, key, word):
    with pytest.raises(HostFileError) as caught:
        loaded(tmp_path, change)
    assert caught.value.key.startswith(key)
    assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_environment_speaks_where_the_host_file_is_silent(tmp_path):
    conversation = bound(tmp_path, AGENT_KEY="페르소나", SHORT_TERM_DAYS="7", SHORT_TERM_TOKEN_LIMIT="500").conversation

    assert conversation.agent_key == "페르소나"
    assert (conversation.short_term_days, conversation.short_term_tokens) == (7, 500)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SHORT_TERM_DAYS", "0"), ("SHORT_TERM_DAYS", "31"), ("SHORT_TERM_DAYS", "3.5"), ("SHORT_TERM_DAYS", "-3"),
        ("SHORT_TERM_DAYS", "٣"), ("SHORT_TERM_DAYS", "9" * 5_000), ("SHORT_TERM_TOKEN_LIMIT", "8k"),
        ("SHORT_TERM_TOKEN_LIMIT", "99"), ("AGENT_KEY", "k" * 513), ("AGENT_KEY", "\udcff"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_told_and_ignored(tmp_path, name, value):
    binding = bound(tmp_path, **{name: value})

    assert environment.read({name: value}).unread == (name,)
    assert binding.conversation == ConversationBinding.of(binding.scope, binding.principal)


def test_an_empty_value_is_none():
    empty = dict.fromkeys(["SHORT_TERM_DAYS", "SHORT_TERM_TOKEN_LIMIT", "AGENT_KEY", "AGENT_MODEL", "DB_HOST"], "")

    assert environment.read(empty) == environment.read({})
    assert environment.ignored(empty) == ()
    assert environment.store_names(empty) == ()


def test_names_that_label_or_that_ask_for_another_store():
    environ: dict[str, Any] = {
        "AGENT_PLATFORM": "x", "AGENT_MODEL": "y", "DB_HOST": "h", "SSH_KEY_PATH": "k",
        "DB_URL": "somebody else's", "SSH_AUTH_SOCK": "the user's own", "SSH_CONNECTION": "1",
    }  # fmt: skip
    assert environment.ignored(environ) == ("AGENT_PLATFORM", "AGENT_MODEL")
    assert environment.store_names(environ) == ("DB_HOST", "SSH_KEY_PATH")


@given(st.dictionaries(st.sampled_from(["SHORT_TERM_DAYS", "SHORT_TERM_TOKEN_LIMIT", "AGENT_KEY"]), st.text()))
def test_whatever_the_environment_says_stays_in_bounds(environ):
    told = environment.read(environ)

    assert told.short_term_days is None or 1 <= told.short_term_days <= limits.SHORT_TERM_DAYS_MAX
    assert told.short_term_tokens is None or 100 <= told.short_term_tokens <= limits.SHORT_TERM_MAX_TOKENS
    assert told.agent_key is None or told.agent_key


def test_a_machine_has_a_name(monkeypatch):
    class Names:
        nodename = ""

    assert machine_name()
    monkeypatch.setattr(os, "uname", Names)
    assert machine_name() == "unnamed"
    Names.nodename = "가" * 400
    assert len(machine_name().encode()) <= limits.REF_MAX_BYTES
