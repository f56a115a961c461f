"""What an agent asks for over HTTP waits for a person at the machine, who finds it and approves it there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time

from tests.tools.cli.desk import environment
from tests.tools.memory.world import ROOT, capture_arguments, forgetting, key
from tests.tools.server.http.team import ANNA_TOKEN, STATIC, TeamServer, answer_of, call, made_team
from tools.host.capabilities import CAPTURE, FORGET, REQUEST_ADMISSION, SAVE_MESSAGE

GUIDE = (ROOT / "docs" / "deploy" / "README.md").read_text(encoding="utf-8")


def engram(host_file, *words):
    done = subprocess.run(
        [sys.executable, "-m", "tools.cli.main", *words, "--config", str(host_file), "--json"],
        capture_output=True, text=True, check=False, env=environment(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_person_approves_what_somebody_asked_for_over_http(tmp_path):
    section = STATIC.replace(
        'token = "anna"\nprincipal = "Anna"', 'token = "anna"\nworkspace = "side"\nprincipal = "Anna"'
    )
    host_file = made_team(tmp_path, section)
    with TeamServer(host_file) as team:
        session = team.opened(ANNA_TOKEN)

        def value(tool, arguments):
            answer = answer_of(team.post(call(tool, arguments), ANNA_TOKEN, mcp_session_id=session))
            document = answer["result"]["structuredContent"]
            assert document["ok"], document
            return document["output"]["value"]

        candidate_id = value(CAPTURE, capture_arguments("To be forgotten."))["candidate_id"]
        admission = {"candidate_id": candidate_id, "idempotency_key": key()}
        record_id = value(REQUEST_ADMISSION, admission)["outcome"]["record_id"]
        answers = []
        asking = threading.Thread(target=lambda: answers.append(value(FORGET, forgetting(record_id))))
        asking.start()
        deadline = time.monotonic() + 60
        while not (listed := engram(host_file, "confirm", "list")):
            assert time.monotonic() < deadline
        assert [(each["principal"], each["workspace_id"]) for each in listed] == [("Anna", "side")]
        approved = engram(host_file, "confirm", "approve", listed[0]["confirmation_id"])
        assert approved["decision"] == "approved"
        asking.join(60)
        assert answers
        assert engram(host_file, "confirm", "list") == []


def test_what_nobody_can_approve_is_said_at_the_start(tmp_path):
    host_file = made_team(tmp_path, STATIC)
    text = host_file.read_text(encoding="utf-8")
    text = text.replace('channels = ["console"]', 'channels = ["elicitation"]')
    host_file.write_text(text.replace("trusted_clients = []", 'trusted_clients = ["claude-code"]'), encoding="utf-8")
    with TeamServer(host_file) as team:
        told = [(line["principal"], line["tools"]) for line in team.log if line["event"] == "never_confirmed"]
    assert told == [("Anna", [FORGET])], "Ben has nothing that needs an approval"


def test_what_somebody_said_over_http_is_seen_and_erased_as_the_guide_says(tmp_path):
    host_file = made_team(tmp_path, STATIC)
    with TeamServer(host_file) as team:
        session = team.opened(ANNA_TOKEN)
        said = {"role": "user", "message": "said over HTTP"}
        saved = answer_of(team.post(call(SAVE_MESSAGE, said), ANNA_TOKEN, mcp_session_id=session))
        assert saved["result"]["structuredContent"]["ok"]
    assert engram(host_file, "timeline") == []
    (command,) = re.findall(r"^cp .*$", GUIDE, flags=re.MULTILINE)
    subprocess.run(["/bin/sh", "-c", command], cwd=tmp_path, check=True)
    copy = tmp_path / "anna.toml"
    (seen,) = engram(copy, "timeline")
    assert seen["message"] == "said over HTTP"
    engram(copy, "messages", "erase", seen["id"], "--yes")
    assert engram(copy, "timeline") == []
