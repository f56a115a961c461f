"""[http] in the host file: what goes together, and bindings that never go beyond what the file grants."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from msgspec import structs

from journal.scope import Scope
from projections.address import Address
from tests.tools.host.host_files import WORKSPACES, loaded, template, written
from tools.host.exceptions import HostFileError
from tools.host.file import HostFile, load_host_file
from tools.host.http import exposure_flaw
from tools.host.principals import bind_principal, binding_of

TOKEN = '[[http.tokens]]\nname = "anna"\nfile = "anna.token"\n'
BOUND = 'token = "anna"\nprincipal = "Anna"\ntools = ["engram_memory_search"]\npurposes = ["purpose:work"]\n'
PRINCIPAL = f"[[http.principals]]\n{BOUND}"
ISSUER = 'audience = "https://m.example/mcp"\nissuer = "https://l.example"\njwks = "https://l.example/keys"\n'
CLAIMED = PRINCIPAL.replace('token = "anna"', 'claims = { sub = "anna" }')


def with_section(folder: Path, section: str) -> HostFile:
    """Put a section in the place of the one that init writes."""
    text = template(folder).replace(*WORKSPACES, 1)
    text = re.sub(r"^\[http\]\n(?:.*\n)*", lambda _: f"[http]\n{section}", text, flags=re.MULTILINE)
    return load_host_file(written(folder, text))


def test_left_out_it_listens_to_this_machine_and_lets_nobody_in(tmp_path):
    http = loaded(tmp_path).http
    assert (http.host, http.port) == ("127.0.0.1", 8377)
    assert (http.tokens, http.principals, http.jwks, http.allowed_hosts, http.allowed_origins) == ((), (), None, (), ())


def test_what_it_names_is_read(tmp_path):
    http = with_section(tmp_path, ISSUER + TOKEN + PRINCIPAL + CLAIMED).http
    assert http.jwks == Address(secure=True, host="l.example", port=443, path="/keys")
    assert (http.tokens[0].name, http.tokens[0].file) == ("anna", tmp_path / "anna.token")
    assert [(each.token, each.claims) for each in http.principals] == [("anna", ()), (None, (("sub", "anna"),))]
    as_file = with_section(tmp_path, ISSUER.replace("https://l.example/keys", "keys.json") + CLAIMED).http
    assert as_file.jwks == tmp_path / "keys.json"


@pytest.mark.parametrize(
    ("section", "key"),
    [
        ('host = "0.0.0.0"\nallowed_hosts = ["m.example"]\n' + TOKEN, "http.tokens"),
        ("port = 65536\n", "http.port"),
        ("port = -1\n", "http.port"),
        (ISSUER.replace("issuer", "# issuer"), "http.issuer"),
        (ISSUER.replace("jwks", "# jwks"), "http.jwks"),
        (ISSUER.replace("https://l.example/keys", "http://l.example/keys"), "http.jwks"),
        (ISSUER.replace("https://l.example/keys", "https://me:planted@l.example/keys"), "http.jwks"),
        (TOKEN + TOKEN, "http.tokens"),
        (TOKEN + 'env = "ANNA"\n', "http.tokens[0]"),
        (TOKEN.replace("file", "# file"), "http.tokens[0]"),
        (TOKEN + 'secret = "planted"\n', "http.tokens[0].secret"),
        (PRINCIPAL, "http.principals[0].token"),
        (CLAIMED, "http.principals[0].claims"),
        (TOKEN + PRINCIPAL + 'claims = { sub = "anna" }\n', "http.principals[0]"),
        (TOKEN + PRINCIPAL.replace("token", "# token"), "http.principals[0]"),
        (TOKEN + PRINCIPAL + PRINCIPAL, "http.principals[1]"),
        (ISSUER + CLAIMED + CLAIMED, "http.principals[1]"),
        (ISSUER + CLAIMED.replace('"anna"', "1"), "http.principals[0].claims"),
        (TOKEN + PRINCIPAL.replace("engram_memory_search", "engram_memory_serch"), "http.principals[0].tools"),
        (TOKEN + PRINCIPAL.replace("purpose:work", "purpose:play"), "http.principals[0].purposes"),
        (TOKEN + PRINCIPAL + 'workspace = "elsewhere"\n', "http.principals[0].workspace"),
        (TOKEN + PRINCIPAL + f'agent_id = "{"x" * 513}"\n', "http.principals[0].agent_id"),
        (TOKEN + PRINCIPAL + 'agent_id = "operator:root"\n', "http.principals[0].agent_id"),
        (TOKEN + re.sub('principal = "[^"]*"', 'principal = "engram:x"', PRINCIPAL), "http.principals[0].principal"),
        (TOKEN + PRINCIPAL.replace("purposes", "# purposes"), "http.principals[0].purposes"),
    ],
)
def test_what_does_not_go_together_is_refused(tmp_path, section, key):
    with pytest.raises(HostFileError, match=re.escape(key)) as refused:
        with_section(tmp_path, section)
    assert "planted" not in str(refused.value)


def test_a_tool_that_the_file_does_not_grant_is_granted_to_nobody(tmp_path):
    text = template(tmp_path, tools=["engram_memory_get"])
    path = written(tmp_path, re.sub(r"^\[http\]\n(?:.*\n)*", f"[http]\n{TOKEN}{PRINCIPAL}", text, flags=re.MULTILINE))
    with pytest.raises(HostFileError, match="beyond what this file grants"):
        load_host_file(path)


@pytest.mark.parametrize(
    ("host", "has_tokens", "has_hosts", "key"),
    [
        ("127.0.0.1", True, False, None),
        ("127.9.9.9", True, False, None),
        ("::1", True, False, None),
        ("localhost", True, False, None),
        ("0.0.0.0", False, True, None),  # noqa: S104 - it is what a person would write
        ("0.0.0.0", True, True, "http.tokens"),  # noqa: S104 - as above
        ("::", True, True, "http.tokens"),
        ("memory.example.org", True, True, "http.tokens"),
        ("localhost.example.org", True, True, "http.tokens"),
        ("192.0.2.1", False, False, "http.allowed_hosts"),
    ],
)
def test_static_tokens_never_leave_this_machine(host, has_tokens, has_hosts, key):
    flaw = exposure_flaw(host, has_tokens=has_tokens, has_hosts=has_hosts)
    assert (flaw and flaw.key) == key


def test_a_binding_holds_no_more_than_its_principal_was_given(tmp_path):
    host_file = with_section(tmp_path, TOKEN + PRINCIPAL + 'workspace = "side"\nagent_id = "codex"\n')
    binding = bind_principal(host_file, host_file.http.principals[0])
    assert binding.scope == Scope.of("tenant", "side")
    assert binding.conversation.scope == Scope.of("tenant", "side")
    assert (binding.principal, binding.agent_id) == ("Anna", "codex")
    assert binding.conversation.user == frozenset({"Anna"})
    assert binding.listed_tools == ("engram_memory_search",)
    assert binding.purpose_refs == ("purpose:work",)


def test_another_tenant_has_opted_in_by_itself_or_sees_no_tool(tmp_path):
    for said, listed in (("", ()), ("tenant_enabled = true\n", ("engram_memory_search",))):
        host_file = with_section(tmp_path, TOKEN + PRINCIPAL + 'tenant = "acme"\nworkspace = "any"\n' + said)
        binding = bind_principal(host_file, host_file.http.principals[0])
        assert binding.scope == Scope.of("acme", "any")
        assert binding.listed_tools == listed


def test_the_hosts_own_opt_in_is_everybodys(tmp_path):
    section = TOKEN + PRINCIPAL + "tenant_enabled = true\n"
    host_file = with_section(tmp_path, section)
    text = host_file.path.read_text(encoding="utf-8").replace("\nenabled = true", "\nenabled = false")
    host_file = load_host_file(written(tmp_path, text))
    assert bind_principal(host_file, host_file.http.principals[0]).listed_tools == ()


def test_the_binding_of_a_principal_in_a_scope(tmp_path):
    second = CLAIMED.replace("engram_memory_search", "engram_memory_forget")
    host_file = with_section(tmp_path, ISSUER + TOKEN + PRINCIPAL + second)
    work = Scope.of("tenant", "work")
    binding = binding_of(host_file, work, "Anna")
    assert binding is not None
    assert binding.granted == {"engram_memory_search", "engram_memory_forget"}
    assert binding_of(host_file, work, "somebody") is None
    assert binding_of(host_file, Scope.of("tenant", "side"), "Anna") is None


def test_a_client_over_http_approves_nothing_by_a_form_of_its_own(tmp_path):
    host_file = with_section(tmp_path, TOKEN + PRINCIPAL)
    told = structs.replace(host_file.confirmation, channels=("console", "elicitation"))
    host_file = dataclasses.replace(host_file, confirmation=told)
    assert bind_principal(host_file, host_file.http.principals[0]).confirmation.channels == ("console",)
