"""[admission] in the host file: what each policy needs, and rules that are refused when the file is read."""

from pathlib import Path

import pytest

from projections.address import Address
from tests.tools.host.host_files import loaded
from tools.host.bearer import TokenPlace
from tools.host.exceptions import HostFileError
from tools.host.file import HostFile
from tools.host.policies.builtin import policy_of
from tools.host.policies.by_rules import Rule, Rules
from tools.host.verifiers.builtin import verifier_of

COMMAND = 'policy = "command"\ncommand = ["bin/policy", "--strict"]\npolicy_id = "ours"\npolicy_version = "3"\n'
HTTP = 'policy = "http"\nurl = "https://policy.example/decide"\npolicy_id = "ours"\npolicy_version = "3"\n'
RULE = '[[admission.rules]]\ndecision = "accept"\n'


class Still:
    def now(self) -> int:
        return 0


def with_section(folder: Path, section: str, mode: int = 0o600) -> HostFile:
    stated = 'policy = "adjudicate"\ntimeout_seconds = 10 '
    return loaded(folder, (stated, section + " "), mode=mode)


def test_a_command_is_made_absolute(tmp_path):
    said = with_section(tmp_path, COMMAND).admission
    assert said.command == (str(tmp_path / "bin/policy"), "--strict")
    assert (said.policy, said.policy_id, said.policy_version, said.timeout_seconds) == ("command", "ours", "3", 10)
    policy = policy_of(said, Still())
    assert (policy.policy_id, policy.policy_version) == ("ours", "3")


def test_roots_of_the_verifier_are_made_absolute(tmp_path):
    changes = ('verifier = "none"\nroots = []', 'verifier = "files"\nroots = ["project", "/srv/docs"]')
    said = loaded(tmp_path, changes, ("revocation_epoch = 0", "revocation_epoch = 7")).verification
    assert said.roots == (tmp_path / "project", Path("/srv/docs"))
    verifier = verifier_of(said)
    assert verifier is not None
    assert verifier.revocation_epoch == 7
    assert verifier_of(loaded(tmp_path).verification) is None


@pytest.mark.parametrize(
    ("section", "key"),
    [
        ('verifier = "file"\nroots = ["a"]', "verification.verifier"),
        ('verifier = "files"\nroots = []', "verification.roots"),
        ('verifier = "none"\nroots = ["a"]', "verification.roots"),
        ('verifier = "files"\nroots = [""]', "verification.roots"),
    ],
)
def test_a_verifier_that_does_not_go_with_its_roots(tmp_path, section, key):
    with pytest.raises(HostFileError, match=key):
        loaded(tmp_path, ('verifier = "none"\nroots = []', section))


def test_a_command_asks_for_a_file_that_is_the_users_alone(tmp_path):
    with pytest.raises(HostFileError, match=r"admission\.command names a command, but the file can be written"):
        with_section(tmp_path, COMMAND, mode=0o666)


def test_the_place_of_a_token_is_made_absolute(tmp_path):
    assert with_section(tmp_path, HTTP).admission.bearer is None
    said = with_section(tmp_path, HTTP + 'bearer_file = "policy.token"\n').admission
    assert said.bearer == TokenPlace(tmp_path / "policy.token", None)
    assert with_section(tmp_path, HTTP + 'bearer_env = "POLICY"\n').admission.bearer == TokenPlace(None, "POLICY")


def test_an_address_is_taken_apart(tmp_path):
    said = with_section(tmp_path, HTTP).admission
    assert said.address == Address(secure=True, host="policy.example", port=443, path="/decide")
    assert policy_of(said, Still()).policy_id == "ours"


@pytest.mark.parametrize(
    ("section", "key", "mend"),
    [
        ('policy = "command"\npolicy_id = "a"\npolicy_version = "1"\n', "admission.command", "the program first"),
        ('policy = "command"\ncommand = ["a"]\npolicy_version = "1"\n', "admission.policy_id", "answers with"),
        ('policy = "command"\ncommand = ["a"]\npolicy_id = "1"\n', "admission.policy_version", "answers with"),
        (COMMAND + 'url = "https://x.example/"\n', "admission.url", "remove it"),
        (COMMAND.replace('"ours"', f'"{"x" * 513}"'), "admission.policy_id", "a shorter one"),
        (HTTP.replace('url = "https://policy.example/decide"', ""), "admission.url", "write the address"),
        (HTTP.replace("https:", "http:"), "admission.url", "write https://"),
        (HTTP + 'bearer_env = "A"\nbearer_file = "a"\n', "admission.bearer_file", "one of the two"),
        (COMMAND + 'bearer_env = "A"\n', "admission.bearer_env", "remove it"),
        (HTTP.replace("//policy", "//anna:planted@policy"), "admission.url", "without a user"),
        (HTTP.replace("/decide", "/decide?key=planted"), "admission.url", "without a user"),
        ('policy = "adjudicate"\ncommand = ["a"]\n', "admission.command", "remove it"),
        ('policy = "adjudicate"\ntimeout_seconds = 0\n', "admission.timeout_seconds", "1 to 20"),
        ('policy = "adjudicate"\ntimeout_seconds = 21\n', "admission.timeout_seconds", "1 to 20"),
        ('policy = "adjudicate"\n' + RULE, "admission.rules", "remove it"),
        ('policy = "rule"\n', "admission.policy", 'did you mean "rules"?'),
        ('policy = "rules"\n', "admission.rules", "write [[admission.rules]]"),
        ('policy = "rules"\nrules_file = "r.toml"\n' + RULE, "admission.rules", "or name a rules_file"),
        ('policy = "rules"\n[[admission.rules]]\n', "admission.rules[0].decision", '"accept", "reject" or'),
        ('policy = "rules"\n[[admission.rules]]\ndecision = "acept"\n', "[0].decision", 'did you mean "accept"?'),
        ('policy = "rules"\n' + RULE + 'kind = ["decision"]\n', "rules[0].kind", "did you mean admission.rules.kinds?"),
        ('policy = "rules"\n' + RULE + 'kinds = "decision"\n', "rules[0].kinds", "a list of 1 to 256 names"),
        ('policy = "rules"\n' + RULE + "kinds = []\n", "rules[0].kinds", "a list of 1 to 256 names"),
        ('policy = "rules"\n' + RULE * 2 + 'kinds = ["decisions"]\n', "rules[1].kinds", 'did you mean "decision"?'),
        ('policy = "rules"\n' + RULE + 'trust_classes = ["trusted"]\n', "trust_classes", "knows asserted, earned"),
        ('policy = "rules"\n' + RULE + 'verification = ["match"]\n', "verification", 'did you mean "matched"?'),
        ('policy = "rules"\n' + RULE + 'families = ["status"]\n', "families", "assertion-family:binary-status"),
        ('policy = "rules"\n' + RULE + 'source_schemes = ["file:"]\n', "source_schemes", "before the colon"),
        ('policy = "rules"\n' + RULE + 'source_schemes = ["File"]\n', "source_schemes", "in lower case"),
        ('policy = "rules"\n' + RULE + "max_bytes = 0\n", "rules[0].max_bytes", "1 to 1048576"),
        ('policy = "rules"\n' + RULE * 257, "admission.rules", "at most 256"),
    ],
)
def test_a_mistake_is_one_sentence_with_key_and_mend(tmp_path, section, key, mend):
    with pytest.raises(HostFileError) as caught:
        with_section(tmp_path, section)
    sentence = str(caught.value)
    assert key in sentence
    assert mend in sentence
    assert "planted" not in sentence
    assert "\n" not in sentence


RULES = """
[[{0}rules]]
decision = "accept"
kinds = ["decision", "context"]
source_schemes = ["file"]
max_bytes = 4096
principals = ["민수"]
trust_classes = ["earned"]
verification = ["matched"]
families = ["assertion-family:binary-status"]
[[{0}rules]]
decision = "reject"
"""
READ = (
    Rule(
        decision="accept", kinds=("context", "decision"), source_schemes=("file",), max_bytes=4096,
        principals=("민수",), trust_classes=("earned",), verification=("matched",),
        families=("assertion-family:binary-status",),
    ),
    Rule(decision="reject"),
)  # fmt: skip


def test_rules_in_the_host_file_and_in_a_file_of_their_own_are_the_same(tmp_path):
    inside = with_section(tmp_path, 'policy = "rules"\n' + RULES.format("admission.")).admission
    (tmp_path / "rules.toml").write_text(RULES.format(""), encoding="utf-8")
    beside = with_section(tmp_path, 'policy = "rules"\nrules_file = "rules.toml"\n').admission
    assert inside.rules == beside.rules == READ
    policy = policy_of(inside, Still())
    assert isinstance(policy, Rules)
    assert policy.policy_version == policy_of(beside, Still()).policy_version


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "does not exist|cannot be read"),
        ("[[rules]\n", "is not valid TOML"),
        ('[[rules]]\ndecision = "acept"\n', r'rules\[0\]\.decision names "acept".*did you mean "accept"\?'),
        ('[[rules]]\ndecision = "accept"\nkind = []\n', r"rules\[0\]\.kind is not a known key; did you mean rules"),
        ('[[rule]]\ndecision = "accept"\n', r"rule is not a known key; did you mean rules\?"),
    ],
)
def test_a_file_of_rules_is_refused_by_its_own_name(tmp_path, content, said):
    if content is not None:
        (tmp_path / "rules.toml").write_text(content, encoding="utf-8")
    with pytest.raises(HostFileError, match=said) as caught:
        with_section(tmp_path, 'policy = "rules"\nrules_file = "rules.toml"\n')
    assert str(caught.value).startswith(str(tmp_path / "rules.toml"))


def test_a_file_of_rules_may_hold_none_and_then_a_person_decides(tmp_path):
    (tmp_path / "rules.toml").write_text("", encoding="utf-8")
    assert with_section(tmp_path, 'policy = "rules"\nrules_file = "rules.toml"\n').admission.rules == ()
