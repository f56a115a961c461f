"""Every number that bounds something, with the source beside it.

Sizes are bytes of UTF-8 unless the name says otherwise; durations carry their unit in the name.
"""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB
SAFE_INTEGER_MAX: Final = 2**53 - 1  # ECMAScript safe integers (CONTRACT §2)
CURSOR_MAX: Final = 2**64 - 1  # CONTRACT §2: unsigned 64-bit

# --- Encodings (CONTRACT §2) ---------------------------------------------------------------------
REF_MAX_BYTES: Final = 512
ARGUMENTS_MAX_BYTES: Final = 1 * MIB
IDEMPOTENCY_KEY_MIN_BYTES: Final = 16
IDEMPOTENCY_KEY_MAX_BYTES: Final = 256

# --- Search and get (CONTRACT §3) ----------------------------------------------------------------
QUERY_MAX_BYTES: Final = 8_192
PHRASES_MAX: Final = 16  # ours: of a query, each of which a result holds as it is written
GET_BESIDE_SECONDS: Final = 1  # ours: for a second look, in a projection, at what a get does not find; about 1 ms
SEARCH_LIMIT_MAX: Final = 50
SEARCH_LIMIT_DEFAULT: Final = 10
PACKET_MIN_BYTES: Final = 4_096
PACKET_MAX_BYTES: Final = 1 * MIB
PACKET_DEFAULT_BYTES: Final = 65_536
ANSWER_RECEIPTS_MAX_BYTES: Final = 2_048  # ours: an answer around its one record; about 1,720, and 75 a projection more
PAGE_CURSOR_MAX_BYTES: Final = 1_024  # ours: an authenticated cursor takes about 200

# --- Capture (CONTRACT §3) -----------------------------------------------------------------------
COMPONENTS_MAX: Final = 64
COMPONENT_TEXT_MAX_BYTES: Final = 65_536
CITATIONS_MAX: Final = 256
FAMILY_REFS_MAX: Final = 64
ATTESTATION_MAX_BYTES: Final = 4_096
RETENTION_CEILING_DEFAULT_DAYS: Final = 3_650  # ours: ten years, stated in the host file

# --- Conversation --------------------------------------------------------------------------------
MESSAGE_MAX_BYTES: Final = 256 * KIB  # ours: a pasted log; one found is a quarter of an answer, escaped it fits a line
KEYWORD_MAX_CHARACTERS: Final = 50  # CONVERSATION §2: a d_tag
KEYWORDS_MAX: Final = 5  # CONVERSATION §2: d_tags of a message
PROJECT_TAG_MAX_CHARACTERS: Final = 64  # ours: a name that a person types
PROJECT_TAG_DESCRIPTION_MAX_CHARACTERS: Final = 1_000  # ours: what a project is, in a few sentences
EXCHANGE_LINE_MAX_BYTES: Final = 256 * MIB  # ours: a message with all its texts; 170 of the greatest size, escaped
SHORT_TERM_DAYS_MAX: Final = 30  # CONVERSATION §3
SHORT_TERM_DAYS_DEFAULT: Final = 3  # CONVERSATION §3
PROFILE_CORE_MAX_CHARACTERS: Final = 1_000  # ours: with the next, half of a brief, so that it holds both whole
PROFILE_SUB_MAX_CHARACTERS: Final = 2_000  # ours
USER_NAME_MAX_CHARACTERS: Final = 100  # ours

# --- The wire ------------------------------------------------------------------------
LINE_MAX_BYTES: Final = 4 * MIB  # ours: arguments, escaped at worst, and their JSON-RPC frame
JSON_DEPTH_MAX: Final = 64  # ours: the deepest legal call nests 9 levels
JSON_DIGITS_MAX: Final = 400  # ours: CPython refuses 4,301 digits; nothing legal has more than 17
INSTRUCTIONS_MAX_BYTES: Final = 2_000
TOOLS_LIST_MAX_BYTES: Final = 12_288
TOOL_DESCRIPTION_MAX_BYTES: Final = 1_000
REQUEST_ID_MAX_BYTES: Final = 1_024  # ours: a longer id cannot be read; clients count or send a UUID
METHOD_MAX_BYTES: Final = 256  # ours: a method's name is echoed where it is unknown
JSON_KEY_MAX_CHARACTERS: Final = 128  # ours: only beyond ASCII, where comparing under NFC can cost a square
CALLS_IN_FLIGHT_MAX: Final = 64  # ours: calls at once a connection, and the worker threads that serve them
FLIGHT_MAX_BYTES: Final = 8 * MIB  # ours: lines whose calls are unanswered; one alone may be longer
STOP_GRACE_SECONDS: Final = 1  # ours: calls in flight at SIGTERM; clients send SIGKILL 2 s later
PURPOSE_ENUM_MAX_BYTES: Final = 256  # CONTRACT §1

# --- Authority and confirmation (CONTRACT §1, §8) ------------------------------------------------
RECEIPT_TTL_SECONDS: Final = 300
CONFIRMATION_TTL_SECONDS: Final = 300
CONFIRMATION_WAIT_SECONDS: Final = 50  # several clients give up at 60
PROGRESS_INTERVAL_SECONDS: Final = 10
POLICY_AGE_MAX_SECONDS: Final = 300
POLICY_TIMEOUT_SECONDS: Final = 10  # ours: how long a policy may think
POLICY_TIMEOUT_MAX_SECONDS: Final = 20  # ours: below the deadline of the call that waits for it
POLICY_ANSWER_MAX_BYTES: Final = 16 * KIB  # ours: six fields of at most 512 bytes, escaped at worst
VERIFY_SECONDS: Final = 2.0  # ours: so long a capture waits for the host's verifier
VERIFIED_FILE_MAX_BYTES: Final = 16 * MIB  # ours: of a file that is cited; read in some ten milliseconds
VERIFIED_TOTAL_MAX_BYTES: Final = 32 * MIB  # ours: of all the files that a candidate cites; they stand in memory
VERIFICATIONS_AT_ONCE_MAX: Final = 4  # ours: a file system that hangs holds so many threads, and no more
VERIFIED_ROOTS_MAX: Final = 64  # ours
REVOCATION_EPOCH_MAX: Final = 99_999  # ours: so that trust that is earned is never longer than what is asserted
ADJUDICATION_NOTE_MAX_BYTES: Final = 4 * KIB  # ours: what a person says of a candidate, in some sentences
NEIGHBOURS_SHOWN: Final = 5  # ours: records like a candidate that a person is shown
NEIGHBOURS_LOOKED_AT: Final = 20  # ours: of which those are the likest
NEIGHBOUR_TEXT_CHARACTERS: Final = 2_000  # ours: of a text that is compared
POLICY_PROGRAMS_MAX: Final = 8  # ours: programs of a policy that run at once; further decisions wait for one
PROPOSALS_MAX: Final = 32  # ours: what one acceptance proposes; the newest records come first
RULES_MAX: Final = 256  # ours: rules of admission, read from the first on
RULE_VALUES_MAX: Final = 256  # ours: names that one condition lists
TRUSTED_CLIENTS_MAX: Final = 64  # ours: clients whose forms a host believes
WAITING_CALLS_MAX: Final = 32  # ours: half of the calls in flight, so that waiting for a person starves no read
FORMS_OF_REQUEST_MAX: Final = 8  # ours: forms that a client is shown for one request; each is an event
REQUESTS_REMEMBERED: Final = 1_024  # ours: requests whose forms a process counts
OPEN_REQUESTS_MAX: Final = 64  # ours: more open confirmations a scope are RATE_LIMITED
CALL_DEADLINE_SECONDS: Final = 30  # ours: a call without a confirmation

# --- Journal -------------------------------------------------------------------------
BATCH_MAX_EVENTS: Final = 256
BATCH_MAX_MILLISECONDS: Final = 20
BATCH_GATHER_SECONDS: Final = 0.002  # ours: what a batch waits for callers of the last one, about a flush
QUEUE_MAX_COMMANDS: Final = 4_096  # ours: a longer queue is RATE_LIMITED
READ_PAGE_EVENTS: Final = 1_024
CLOCK_JUMP_MAX_MILLISECONDS: Final = 24 * 3_600 * 1_000
MAP_SIZE_BYTES: Final = 64 * 1024 * MIB  # sparse: address space, not disk
READERS_MAX: Final = 510
JOURNAL_AHEAD_BYTES: Final = 8 * MIB  # ours: by how much the journal's file is longer than what is written of it
READER_CHECK_SECONDS: Final = 30
OPENING_WAIT_SECONDS: Final = 30  # ours: for another process's opening, and for a stopped writer's lock
QUARANTINE_MAX_SECONDS: Final = 3_600  # ours: the walk after a crash takes about 50 s a million events
REST_SUMMED_BYTES: Final = 256 * MIB  # ours: a journal's file that is summed when it is closed: .1 s, 200,000 events
PAGE_SCRUB_PAUSE_SECONDS: Final = 900  # ours: between two walks over the journal's pages (20 s a GB) or projections'
PAGE_SCRUB_AFTER_OPENING_SECONDS: Final = 20  # ours: a session begins with calls that somebody waits for
PAGE_SCRUB_SHARE: Final = 100  # ours: and for so many times as long as the last one took: 1 % of a core
REST_WAIT_SECONDS: Final = 1  # ours: for another process's opening or closing; without the note the next opening walks
AUDIT_FINDINGS_MAX: Final = 1_000  # ours: further ones of a scope are only counted
AUDIT_INDEX_EVENTS_MAX: Final = 100_000  # ours: 70 MB to compare a scope's indexes row by row; above, by sums

# --- Checkpoints; all ours ---------------------------------------------------------------
CHECKPOINT_EVERY_EVENTS: Final = 4_096  # a signed checkpoint each; the host may name another number
CHECKPOINT_EVERY_MAX_EVENTS: Final = 1_000_000
CHECKPOINT_PIECE_EVENTS: Final = 65_536  # a sweep takes at most so many into the tree: about half a second
NOTE_MAX_BYTES: Final = 64 * KIB  # a checkpoint takes about 250, and witnesses may add some signatures
PROOF_MAX_BYTES: Final = 1 * MIB  # a proof takes about 4 KB, the frame in it included
SCRUB_PIECE_EVENTS: Final = 2_048  # a sweep looks at so many again, and opens what they sealed: about 50 ms
SCRUB_PAUSE_SECONDS: Final = 6 * 3_600  # between two rounds over a scope

# --- Keys ----------------------------------------------------------------------------
SLOTS_AHEAD: Final = 64
SLOTS_AHEAD_MAX: Final = 512  # ours: twice as many as the last ones, up to so many, where those were used up
SLOTS_AHEAD_SECONDS: Final = 1  # ours: within so long: two flushes for 64 keys took a fifth of many captures' time
NAME_MAX_BYTES: Final = 480  # ours: a name in a header is keyed by; LMDB holds 511 bytes, 16 of them the scope tag
SLOT_NUMBER_MAX: Final = 2**48  # ours: a greater cursor or slot number in an index row is a broken row
SLOT_BYTES: Final = 128  # divides a 512-byte sector, so a slot is never torn
KEY_BYTES: Final = 32
KEY_ID_BYTES: Final = 16
NONCE_BYTES: Final = 12

# --- Backups -------------------------------------------------------------------------
BACKUP_CHECKPOINTS_MAX: Final = 16  # ours: the newest of a scope; one alone fixes all that came before
BACKUP_MANIFEST_MAX_BYTES: Final = 256 * MIB  # ours: about 150 bytes a page of 1,024 events
BACKUP_MEMBER_MAX_BYTES: Final = 4_096 * MIB  # ours: 1,024 events of at most 1 MiB each, and what is said of them
KEY_BACKUP_MAX_BYTES: Final = 4_096 * MIB  # ours: 128 bytes a data key
KEY_BACKUP_DEFAULT_DAYS: Final = 90  # ours: long enough to be made anew in time
KEY_BACKUP_MAX_DAYS: Final = 3_650  # ours: ten years

# --- Projections ---------------------------------------------------------------------
WINDOW_RECORDS: Final = 50  # whose context is looked at, a constant of the profile
WINDOW_RECORDS_MAX: Final = 7 * WINDOW_RECORDS  # with three neighbours on either side: the rescored window
SEMANTIC_INLINE_SECONDS: Final = 5.0  # ours: so long a search that needs embeddings makes those that are missing
SEMANTIC_LOOK_SECONDS: Final = 0.02  # ours: between two looks at what other threads do, or whether to wait on
SEMANTIC_KEEP_SECONDS: Final = 2.0  # ours: so long what a person wants kept waits for its embedding
SEMANTIC_REST_SECONDS: Final = 30  # a provider that did not answer is not asked about messages again before that
SEMANTIC_OWNERS_MAX: Final = 16  # users of a scope whose messages' vectors stay in memory
SEMANTIC_ASIDE_THREADS: Final = 16  # ours: so many queries are embedded at once, where there are so many cores
SEMANTIC_ASIDE_THREADS_LEAST: Final = 2  # ours: one embeds while another scans
SEMANTIC_BEGIN_SECONDS: Final = 0.002  # ours: so long is waited for one of them to begin; a free one takes .1 ms
SEMANTIC_READ_OVER_SECONDS: Final = 0.001  # ours: so long after what will be scanned was read over it is read again
SEMANTIC_READ_OVER_MAX_SECONDS: Final = 0.2  # ours: and so long: beside a slower model a millisecond is nothing
SEMANTIC_SWEEP_SECONDS: Final = 2.0  # ours: so long a sweep embeds before the other work has its turn
RECEIPT_DOCUMENT_MAX_BYTES: Final = 16 * MIB  # ours: request and answer of 1 MiB each, spelled at their longest
PROJECTION_VERSIONS_TRIED: Final = 8  # ours: of which release an answer may be, tried where its snapshot is not ours
CATCHUP_PAGE_EVENTS: Final = 512
REBUILD_PAGES: Final = 4  # ours: such pages that a rebuild takes at once: fewer transactions, segments and merges
REBUILD_PAGES_MAX: Final = 16  # ours: and so many of a long journal, which takes a tenth less of the processor
REBUILD_TIMES: Final = 24  # ours: in so many goes at least, that two processes may come to the end together
REBUILD_SECOND_MIN_PAGES: Final = 8  # ours: fewer are folded before a second process has started
REBUILD_SECOND_MAX_SECONDS: Final = 30.0  # ours: a second process that is silent for longer is done without
REBUILD_PAGES_AHEAD: Final = 3  # ours: goes prepared and not yet folded, some 8 MB each
COLLECTED_OBJECTS: Final = 10_000  # ours: so many more of them, and a server looks for garbage: every few calls
REBUILD_COLLECTED_OBJECTS: Final = 400_000  # ours: so many more of them, and garbage is looked for; Python's own is 700
FOLD_STEP_EVENTS: Final = 32  # ours: how many events are folded first before a deadline is looked at again
FOLD_STEP_SECONDS: Final = 0.25  # ours: a step that took longer is halved
LEXICAL_TEXT_MAX_CHARACTERS: Final = 65_536  # ours: of one text in NFKC: only what NFKC expands is longer
SIGNATURE_TEXT_MAX_CHARACTERS: Final = 262_144  # ours: likewise of a message's text, of which every part is found
OVERLAY_MAX_EVENTS: Final = 8_192  # ours: a longer tail than this is waited for, not folded in memory
PROJECTION_DOUBT_SECONDS: Final = 3_600  # ours: an error of no code has them rebuilt once; a second is the program's
PROJECTION_STUCK_SECONDS: Final = 2  # ours: a writer that makes no headway for so long is taken for stopped
PROJECTION_MAP_SIZE_BYTES: Final = 32 * 1024 * MIB  # sparse; ours: half the journal's, one a projection and scope
PROJECTION_TABLES_MAX: Final = 32  # ours: room for those of other releases
PAYLOADS_KEPT_MAX_CHARACTERS: Final = 16 * MIB  # ours: and no more of them a page; what comes after is opened again
PAYLOAD_KEPT_MAX_CHARACTERS: Final = 16 * KIB  # ours: a longer payload is opened again a projection, not kept a page
COPY_BATCH_BYTES: Final = 16 * MIB  # ours: what a compaction copies in one transaction
COPY_CLAIM_SECONDS: Final = 1  # ours: a generation that another process writes for longer is folded anew, not copied
ERASURE_BOUND_SECONDS: Final = 60  # forgettings wait at most this long for a compaction to begin or to go on
ERASURE_GATHER_SECONDS: Final = 30  # ours: in a large scope they gather so long first, so that one serves many
ERASURE_GATHER_MAX: Final = 1_000  # ours: so many of them wait no longer
ERASURE_INLINE_MAX_EVENTS: Final = 20_000  # ours: up to here a compaction takes about a second
ERASURE_INLINE_SECONDS: Final = 2  # ours: how long a forgetting waits for its own erasure
SWEEP_INTERVAL_SECONDS: Final = 5  # ours: how often a server looks for what is left to finish
EXPIRY_INTERVAL_SECONDS: Final = 60  # ours: how often it looks for records that expired; reads never wait for it
EXPIRY_ROUND_MAX: Final = 256  # ours: records that one round moves on; a round that is full is followed by the next

# --- Host ----------------------------------------------------------------------------
HOST_FILE_MAX_BYTES: Final = 256 * KIB  # ours: a thousand times what `engram init` writes
SCOPE_FILE_MAX_BYTES: Final = 4 * KIB  # ours: `.engram-scope` holds one name
PURPOSES_MAX: Final = 64  # ours
WORKSPACES_MAX: Final = 256  # ours
RETENTION_CEILING_MAX_DAYS: Final = 36_500  # ours: a hundred years, well before the last instant that can be written
USERS_MAX: Final = 256  # ours: lists of principals that are one user each
USER_PRINCIPALS_MAX: Final = 64  # ours: principals that are one user
AUTHORIZATION_NONCE_BYTES: Final = 32  # 256 bits
RECEIPT_SKEW_MAX_MILLISECONDS: Final = 5_000  # ours: a clock set back further than this voids a receipt
NOTICE_INTERVAL_SECONDS: Final = 30  # ours: one notice a kind and half minute
NOTICE_TIMEOUT_SECONDS: Final = 10  # ours: a notice command that hangs is ended
SCREEN_WINDOW_CHARACTERS: Final = 2_048  # ours: no screen pattern ever runs over more text at once
SCREEN_OVERLAP_CHARACTERS: Final = 512  # ours: over the longest secret that stands on one line
CITE_FILE_MAX_BYTES: Final = 64 * MIB  # ours
ID_BEGINNING_CHARACTERS_MIN: Final = 4  # ours: what a person types of an id, after its kind, to mean the whole
ID_SHOWN_CHARACTERS: Final = 20  # ours: what a narrow terminal shows of an id
ID_SUGGESTIONS_MAX: Final = 5  # ours: ids that a refusal of an ambiguous one names
ERASE_SHOWN: Final = 5  # ours: messages that a person is shown before they say yes to erasing them
TIMELINE_SHOWN: Final = 50  # ours: messages that a person is shown who does not say how many

# --- HTTP; all ours ------------------------------------------------------------------
HTTP_PORT: Final = 8377
HTTP_PRINCIPALS_MAX: Final = 256  # each has a server of its own, of a few hundred KB
HTTP_CLAIMS_MAX: Final = 16  # claims that one principal is known by
HTTP_NAMES_MAX: Final = 64  # allowed hosts, and allowed origins
HTTP_CONNECTIONS_MAX: Final = 1_024  # more at once are answered with 503
FILES_OF_PROCESS: Final = 256  # that a server has open beside its connections and scopes; it begins with some 13
FILES_OF_SCOPE: Final = 16  # of its projections; 6 where nothing is rebuilt, and as many again while all are
HTTP_WORKERS_MAX: Final = 128  # threads that serve calls: of all principals, four times what may wait for a person
HTTP_PRINCIPAL_CALLS_MAX: Final = 16  # calls at once of one principal: half of what may wait for a person
HTTP_PRINCIPAL_WAITING_MAX: Final = 256  # further ones of it wait in line, and more than these are RATE_LIMITED
HTTP_ROOM_SECONDS: Final = 10  # so long a call waits while its principal has that many under way
HTTP_HELD_MAX_BYTES: Final = 64 * MIB  # bodies that stand in memory at once
HTTP_BODY_SECONDS: Final = 30  # for a whole body, however it trickles
HTTP_HEAD_SECONDS: Final = 10  # for a request's head, from the connection or from the answer before it
HTTP_HEAD_MAX_BYTES: Final = 32 * KIB  # request line and headers, a token among them
HTTP_WATCH_SECONDS: Final = 0.1  # a get that takes longer has its client watched, for it may go away
HTTP_SESSIONS_MAX: Final = 256  # open sessions of one principal
HTTP_SESSION_IDLE_SECONDS: Final = 1_800
HTTP_DRAIN_SECONDS: Final = 8  # calls under way at SIGTERM; container runtimes kill after 10
HTTP_REREAD_SECONDS: Final = 1  # so often it is looked whether the host file names other principals
HTTP_READY_SECONDS: Final = 2  # for a look at the store
TOKEN_MAX_BYTES: Final = 8 * KIB
TOKEN_SECRET_MIN_CHARACTERS: Final = 32  # of a static token: 128 bits in hexadecimal
TOKEN_FILE_MAX_BYTES: Final = 4 * KIB
TOKEN_LEEWAY_SECONDS: Final = 30  # by which the clocks of issuer and server may differ
JWKS_MAX_BYTES: Final = 256 * KIB
JWKS_KEYS_MAX: Final = 64
JWKS_RSA_MIN_BITS: Final = 2_048
JWKS_FRESH_SECONDS: Final = 300  # a key that was taken back is good for so long
JWKS_STALE_SECONDS: Final = 3_600  # keys of an issuer that does not answer
JWKS_REFETCH_SECONDS: Final = 10  # an unknown key id has the set fetched again, at most so often
JWKS_FETCH_SECONDS: Final = 5
TELEMETRY_END_SECONDS: Final = 2  # for the last spans when a server ends; a collector that is gone is not waited for

# --- Conversation settings (CONVERSATION §3) -----------------------------------------------------
SHORT_TERM_TOKENS: Final = 8_000
CHARACTERS_PER_TEN_TOKENS: Final = 17  # CONVERSATION §3: tokens are approximated as characters / 1.7
SHORT_TERM_MIN_TOKENS: Final = 100  # ours
SHORT_TERM_MAX_TOKENS: Final = 100_000  # ours
BRIEF_MAX_CHARACTERS: Final = 6_000
BRIEF_CEILING_MIN_CHARACTERS: Final = 4_000  # ours: both profiles whole, and room for pinned lines
BRIEF_OWN_MESSAGES: Final = 8  # CONVERSATION §3: of the current platform
BRIEF_OTHER_MESSAGES: Final = 4  # CONVERSATION §3: of the others
BRIEF_PROJECTS_MAX: Final = 10  # ours
BRIEF_PINNED_MAX: Final = 1_000  # ours: more lines than a brief of the greatest size holds
BRIEF_LINE_MAX_CHARACTERS: Final = 400  # ours: of a recent message; its whole text is found by search_memory
BRIEF_CEILING_MAX_CHARACTERS: Final = 20_000  # ours
INSTRUCTIONS_STATIC_MAX_BYTES: Final = 800  # rules and purposes, where what is remembered follows them
ENVELOPES_REMEMBERED: Final = 64  # ours: what clients since 2026-07-28 say of themselves in each request
ENVELOPE_MAX_BYTES: Final = 2_048  # ours: a longer one is looked at by the library each time
SESSIONS_REMEMBERED: Final = 256  # ours: digests of connections' sessions that a service keeps at hand
LISTING_WAIT_SECONDS: Final = 10  # ours: for a store to open, where the tools to list stand in it too
RATE_MAX_A_MINUTE: Final = 1_000_000  # ours
RATE_BUCKETS_MAX: Final = 4_096  # ours: two a principal and scope; 1 MB
GRANT_MAX_DAYS: Final = 36_500  # ours: of a grant whose end is said from now on, as of a retention
AUTHORITIES_REMEMBERED: Final = 1_024  # ours: principals in a scope whose grants an engine keeps at hand
INSTRUCTIONS_WAIT_SECONDS: Final = 0.1  # for what is remembered

# --- Lexical; all ours ---------------------------------------------------------------
LABEL_MAX_CHARACTERS: Final = 64  # ours: a label is a name
LABEL_MAX_TERMS: Final = 2  # ours: first and last
LEXICAL_MEMO_WORDS: Final = (
    131_072  # words that a tokenizer, and terms that a keyed hash, remembers a scope: 70 MB at most
)
LEXICAL_MEMO_WORD_CHARACTERS: Final = 64  # longer runs are seldom met twice
LEXICAL_MEMO_NUMBER_DIGITS: Final = 5  # and so are numbers of so many digits, which are no years
LEXICAL_PAIRS: Final = 131_072  # ours: pairs of syllables whose tokens are at hand where many are weighed: 3 MB
LEXICAL_TOGETHER_MIN_DOCUMENTS: Final = 8  # ours: fewer are weighed sooner one by one
LEXICAL_TOGETHER_CHARACTERS: Final = 262_144  # ours: of documents that are weighed at once: about 20 MB of work space
LEXICAL_PIECE_POSTINGS: Final = 65_536  # merges and digests work on so many at a time: about 4 MB of work space
LEXICAL_CHUNK_POSTINGS: Final = 8_184  # ten pages: the LMDB binding touches every page of a value that is read
LEXICAL_PREPARED_CHARACTERS: Final = 8_388_608  # ours: of a page's documents; those after it the fold weighs itself
LEXICAL_BUILD_POSTINGS: Final = 1_000_000  # a batch is built in pieces of this size: about 50 MB of work space
LEXICAL_LEVEL_POSTINGS: Final = 16_384  # segments below this are of the lowest level; to merge some takes 0.5 ms
LEXICAL_LEVEL_FACTOR: Final = 4  # levels are this much apart; of each but the lowest there is one segment at most
LEXICAL_LOWEST_MERGE: Final = 4  # so many segments of the lowest level are merged, so that most additions merge nothing
LEXICAL_INLINE_POSTINGS: Final = 1_000_000  # a fold merges up to this by itself, in about 20 ms; more is upkeep's
LEXICAL_SEGMENT_POSTINGS: Final = 8_000_000  # 40 MB: a segment of this size is full and merges no more
LEXICAL_SEGMENTS_MAX: Final = 32  # a fold merges, whatever the size, before a query has to look into more
LEXICAL_JOINT_SEARCHES: Final = 64  # ours: who searches but a few times does not merge in memory, some ms a segment
LEXICAL_JOINT_POSTINGS: Final = 6_000_000  # ours: 30 MB an index that is searched, and 32 bytes a token
LEXICAL_PAGE_DOCUMENTS: Final = 128  # rows of 73 bytes: 9 KB are written again when a document is added
LEXICAL_SEQUENCE_PAGE_DOCUMENTS: Final = 64  # places of 20 bytes: 1.3 KB are written again when one is added
LEXICAL_JOIN_POSTINGS: Final = 65_536  # lists up to this sum are joined in one add: about 0.1 ms

# --- Messages; all ours --------------------------------------------------------------
MESSAGES_OWNERS_KEPT: Final = 16  # owners a scope whose keys are kept, with the terms hashed under them
MESSAGES_SIGNATURE_LEAST_BYTES: Final = 128  # a power of two, as is every size
MESSAGES_SIGNATURE_MAX_BYTES: Final = 64 * KIB  # a text of more than 43,000 different grams fills it up
MESSAGES_SIGNATURE_BITS: Final = 12  # a gram; so of twelve bits one is set at most, and two grams tell 99 % apart
MESSAGES_SIGNATURE_BLOCK_BYTES: Final = 512 * KIB  # of a large block, which is written once; a query reads 1 % of it
MESSAGES_QUERY_GRAMS: Final = 24  # of a long query; more would tell nothing more

# --- Embeddings; all ours ------------------------------------------------------------
EMBEDDING_DIMENSION_MAX: Final = 8_192  # twice the widest in use
EMBEDDING_MODEL_MAX_CHARACTERS: Final = 200  # a model's name
EMBEDDING_THREADS: Final = 1  # of a local model: beside other work two took two and a half times as long for a question
EMBEDDING_LOCAL_CHARACTERS: Final = 2_000  # embedded of a text: 1.7 s of a core at worst; the model reads 512 tokens
EMBEDDING_LOCAL_TOKENS: Final = 512  # of a text, read by a model in ONNX: what most of them were trained on
EMBEDDING_ENDPOINT_CHARACTERS: Final = 8_000  # embedded of a text: under 8,192 tokens in most scripts
EMBEDDING_ENDPOINT_LEAST_CHARACTERS: Final = 400  # a text that is refused is halved down to this: under 512 tokens
EMBEDDING_BATCH_TEXTS: Final = 64  # texts a request, at most
EMBEDDING_BATCH_TEXTS_MAX: Final = 2_048  # what OpenAI takes
EMBEDDING_BATCH_CHARACTERS: Final = 64_000  # characters a request, at most
EMBEDDING_BATCH_CHARACTERS_MAX: Final = 1_000_000  # under OpenAI's 300,000 tokens for English
EMBEDDING_ATTEMPTS: Final = 5  # of one request
EMBEDDING_BACKOFF_SECONDS: Final = 0.5  # the first pause is up to this long, each further one up to twice as long
EMBEDDING_BACKOFF_MAX_SECONDS: Final = 30
EMBEDDING_DOCUMENTS_DEADLINE_SECONDS: Final = 120  # a whole call, with its pauses; somebody asks again later
EMBEDDING_QUERIES_DEADLINE_SECONDS: Final = 5  # a whole call: somebody waits for the answer
EMBEDDING_ATTEMPT_SECONDS: Final = 30  # one request, whatever its answer trickles
EMBEDDING_NUMBER_BYTES: Final = 32  # of an answer, a number with its spaces and its share of the rest, at most
EMBEDDING_HEADER_MAX_BYTES: Final = MIB  # of a file of tensors; a static model has three of them
EMBEDDING_ANSWER_BYTES: Final = 64 * KIB  # of an answer, beside its numbers

# --- Vector; all ours ----------------------------------------------------------------
VECTOR_LOCK_SECONDS: Final = 2  # an embedding's environment is open for one look or one write
VECTOR_TEXT_MAX_CHARACTERS: Final = 8_000  # of a text that is embedded: 16 parts
VECTOR_QUERY_CHARACTERS: Final = 500  # of a query that is embedded: a model on this machine takes a second for so much
VECTOR_PART_CHARACTERS: Final = 500  # a longer text is embedded by parts: what is meant by a paragraph, not by a page
VECTOR_BATCH_TEXTS: Final = 64  # embedded in one go: about a second of a small model on one core
VECTOR_BATCH_CHARACTERS: Final = (
    8_192  # and no more: of a provider elsewhere; one on this machine is given what it makes in a second
)
VECTOR_BATCH_SECONDS: Final = 1.0  # of a model on this machine: who waits for what is missing stops between two
VECTOR_BATCH_FIRST_CHARACTERS: Final = 1_024  # of its first batch, before its pace is known
VECTOR_ATTEMPTS_MAX: Final = 3  # a text that was not embedded in so many rests until a person or a restart asks
VECTOR_RETRY_SECONDS: Final = 10  # before the second attempt; six times as long before the third
VECTOR_RETRY_FACTOR: Final = 6
VECTOR_PAUSE_MAX_SECONDS: Final = 60  # a provider that fails again and again is asked so seldom
VECTOR_REFUSED_SHARE: Final = 10  # of so many texts one may be refused for a new model still to be complete
VECTOR_OPEN_ROWS: Final = 1_024  # embeddings that are opened in one view of the journal: about 50 ms
VECTOR_CENTRE_ROWS: Final = 4_096  # vectors whose mean is the centre: a constant of the profile
VECTOR_EXACT_ROWS: Final = 512  # up to so many are compared one by one, without an index: about 1 ms
VECTOR_PICKED: Final = 32  # ours: an index is asked for so many times what is wanted; with 8, 1 in 4 was asked again
VECTOR_PICKED_LEAST: Final = 1_600  # ours: and for so many at least: a scan takes .07 ms more than for 400
VECTOR_READ_OVER_BYTES: Final = 1 << 26  # ours: copies of more are not kept in the processor's cache: 330,000 of 384
VECTOR_WIDENING: Final = 4  # so much further is looked when they do not settle the order

# --- The self-check (engram doctor) --------------------------------------------------------------
CHECK_DEADLINE_SECONDS: Final = 10  # ours: what takes longer is reported as late
CHECK_STORE_DEADLINE_SECONDS: Final = 30  # ours: for the child process that looks into the store
CHECK_WALK_SECONDS: Final = 30  # ours: for the walk over a journal in doubt: 600,000 events
CHECK_LOCK_SECONDS: Final = 1.5  # ours: a server gives its lock back after 20 ms; one that keeps it so long is stuck
CHECK_SUBJECTS_SAMPLE: Final = 2_000  # ours: subjects a scope whose key slot is looked at
CHECK_FILES_MAX: Final = 10_000  # ours: entries of a store whose permissions are looked at
CHECK_CLIENT_FILE_MAX_BYTES: Final = 64 * MIB  # ours: a client's own file; they keep histories there
CHECK_NEARLY_FULL: Final = 0.8  # ours: the share of a map or of the reader slots from which on it is told
CHECK_DISK_FREE_LOW_BYTES: Final = 1024 * MIB  # ours
CHECK_DISK_FREE_NONE_BYTES: Final = 64 * MIB  # ours: a rebuild beside the old generation no longer fits
CHECK_IDLE_DAYS: Final = 400  # ours: a last event further back may mean a clock far ahead
