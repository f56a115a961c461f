"""The binding: purposes, grants, opt-in, confirmations, and that nothing of it can be changed."""

import dataclasses

import pytest

from journal.events import Actor
from tests.tools.host.host_files import WORKSPACES, loaded
from tools.host.binding import bind
from tools.host.capabilities import ALL_TOOLS, nearest
from tools.host.exceptions import UntrustedContext

COMPATIBLE = ("compatible = []", 'compatible = ["purpose:사례"]')


def test_a_purpose_reads_itself_and_what_lists_it(tmp_path):
    binding = bind(loaded(tmp_path, COMPATIBLE))
    assert binding.purpose_refs == ("purpose:work", "purpose:사례")
    # What was captured for work may be read for the case, and not the other way round.
    assert binding.readable("purpose:사례") == {"purpose:사례", "purpose:work"}
    assert binding.readable("purpose:work") == {"purpose:work"}


def test_another_purpose_is_a_protocol_refusal(tmp_path):
    with pytest.raises(UntrustedContext) as caught:
        bind(loaded(tmp_path)).readable("purpose:other")
    assert caught.value.rpc_code == -32603
    assert caught.value.rpc_message == "trusted invocation context unavailable"


def test_only_granted_tools_are_listed(tmp_path):
    everything = bind(loaded(tmp_path))
    assert everything.granted == set(ALL_TOOLS)
    assert everything.listed_tools == ALL_TOOLS
    fewer = bind(loaded(tmp_path, ('\n    "engram_memory_forget",', "")))
    assert "engram_memory_forget" not in fewer.listed_tools
    assert len(fewer.listed_tools) == 9


@pytest.mark.parametrize("key", ["\nenabled", "\ntenant_enabled"])
def test_nothing_is_listed_until_both_opted_in(tmp_path, key):
    binding = bind(loaded(tmp_path, (f"{key} = true", f"{key} = false")))
    assert not binding.enabled
    assert binding.listed_tools == ()


def test_what_destroys_is_always_confirmed(tmp_path):
    binding = bind(loaded(tmp_path))
    always = ["engram_memory_withdraw", "engram_memory_forget", "manage_knowledge"]
    assert [name for name in ALL_TOOLS if binding.confirms(name)] == always
    stricter = bind(loaded(tmp_path, ("require = []", 'require = ["capture"]')))
    assert stricter.confirms("engram_memory_capture")
    assert not stricter.confirms("engram_memory_request_admission")


def test_the_binding_names_scope_and_actor_and_cannot_be_changed(tmp_path):
    binding = bind(loaded(tmp_path, ('# agent_id = "NAME"', 'agent_id = "agent:one"')))
    assert (binding.scope.tenant_id, binding.scope.workspace_id) == ("tenant", "work")
    assert binding.actor(b"s" * 16) == Actor("somebody", "agent:one", b"s" * 16)
    assert binding.retention_ceiling_milliseconds == 3650 * 86_400_000
    with pytest.raises(dataclasses.FrozenInstanceError):
        binding.principal = "another"  # type: ignore[misc]


def test_a_project_moves_only_the_workspace(tmp_path):
    host_file = loaded(tmp_path, WORKSPACES)
    (tmp_path / ".engram-scope").write_text("side")
    moved = bind(host_file, tmp_path)
    assert moved.scope.workspace_id == "side"
    home = bind(host_file)
    assert dataclasses.replace(moved, scope=home.scope, conversation=home.conversation) == home
    assert dataclasses.replace(moved.conversation, scope=home.scope) == home.conversation
    assert bind(host_file, tmp_path, workspace="옆").scope.workspace_id == "옆"


def test_nearest_names():
    assert nearest("forget", ALL_TOOLS) == "engram_memory_forget"
    assert nearest("search", ALL_TOOLS) == "engram_memory_search"
    assert nearest("engram_search", ALL_TOOLS) in ALL_TOOLS
    assert nearest("xyzzy", ALL_TOOLS) is None


def test_a_client_shows_forms_only_where_the_host_says_both(tmp_path):
    both = ('channels = ["console"]', 'channels = ["elicitation"]'), ("trusted_clients = []", 'trusted_clients = ["x"]')
    binding = bind(loaded(tmp_path, *both))
    confirmed = {"engram_memory_withdraw", "engram_memory_forget", "manage_knowledge"}
    assert binding.elicited("x") == confirmed
    assert binding.elicited("X") == binding.elicited("") == binding.elicited(None) == frozenset()
    more = bind(loaded(tmp_path, *both, ("require = []", 'require = ["capture"]')))
    assert more.elicited("x") == confirmed | {"engram_memory_capture"}
    off = dataclasses.replace(binding, confirmation=bind(loaded(tmp_path)).confirmation)
    assert off.elicited("x") == frozenset()
