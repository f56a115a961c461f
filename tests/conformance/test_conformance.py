"""The MCP conformance suite against the real server, and docs/conformance.md against what came of it."""

from __future__ import annotations

import re

import pytest

from tests.conformance.suite_runs import EXTENSION, INSTALL_SECONDS, VERSIONS, installed, outcome_of
from tests.tools.memory.world import ROOT
from tests.tools.server.http.team import ANNA_TOKEN, STATIC, TeamServer, made_team

DOCUMENT = ROOT / "docs" / "conformance.md"
PROMISED = {
    "server-initialize", "server-session-lifecycle", "ping", "tools-list", "server-sse-multiple-streams",
    "dns-rebinding-protection", "http-header-validation",
}  # fmt: skip
UNTRIED = {  # of server-stateless: they call tools of the suite's own
    "sep-2575-server-rejects-undeclared-capability", "sep-2575-missing-capability-http-400",
    "sep-2575-http-server-no-independent-requests-on-stream", "sep-2575-server-no-log-without-loglevel",
}  # fmt: skip

pytestmark = pytest.mark.timeout(3 * INSTALL_SECONDS)


@pytest.fixture(scope="module")
def suite():
    return installed()


@pytest.fixture(scope="module")
def outcomes(suite, tmp_path_factory):
    """What each scenario came to, by the version of the protocol."""
    with TeamServer(made_team(tmp_path_factory.mktemp("team"), STATIC)) as server:
        return {
            version: suite.outcomes(server.url + "/mcp", ANNA_TOKEN, version, tmp_path_factory.mktemp("results"))
            for version in (*VERSIONS, EXTENSION)
        }


def told():
    """Return the document's table: scenario, its versions, the verdict, and why it is not passed."""
    rows = re.findall(
        r"^\| `(\S+)` \| (.+?) \| (.+?) \| ?(.*?) ?\|$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE
    )
    return {name: (tuple(versions.split(", ")), verdict, why) for name, versions, verdict, why in rows}


def test_nothing_that_applies_fails(outcomes):
    failed = {
        (version, name): dict(outcome.failed)
        for version, scenarios in outcomes.items()
        for name, outcome in scenarios.items()
        if outcome.failed
    }
    assert failed == {}


@pytest.mark.parametrize("name", sorted(PROMISED))
def test_what_is_promised_is_passed_in_every_version_that_has_it(suite, outcomes, name):
    versions = [version for version in VERSIONS if version in suite.scenarios()[name]]
    assert versions
    assert {outcomes[version][name].verdict for version in versions} == {"passed"}


def test_a_server_without_sessions_passes_but_for_the_suites_own_tools(outcomes):
    outcome = outcomes["2026-07-28"]["server-stateless"]
    assert len(outcome.passed) == 19
    assert outcome.absent == UNTRIED


def test_the_document_tells_every_scenario_and_what_came_of_it(suite, outcomes):
    came = {}
    for name, versions in suite.scenarios().items():
        verdicts = {outcomes[version][name].verdict for version in versions}
        came[name] = (versions, *verdicts)
    assert {name: row[:2] for name, row in told().items()} == came


def test_whatever_is_not_passed_has_its_reason():
    assert [name for name, (_, verdict, why) in told().items() if (verdict == "passed") == bool(why)] == []


def test_a_check_that_fails_for_any_other_reason_is_a_failure():
    absent = {"id": "a", "status": "FAILURE", "errorMessage": "Failed: Method not found"}
    wrong = {"id": "b", "status": "FAILURE", "errorMessage": "Expected HTTP 2xx, got 403"}
    shape = {"id": "wire-schema-valid", "status": "FAILURE", "errorMessage": "2 messages violate the schema"}
    good = {"id": "c", "status": "SUCCESS"}
    assert outcome_of([absent]).verdict == "does not apply"
    assert outcome_of([absent, good]).verdict == "in part"
    assert outcome_of([good]).verdict == "passed"
    assert outcome_of([good, wrong]).verdict == outcome_of([good, shape]).verdict == "failed"
