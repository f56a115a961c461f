"""docs/admission.md: what it shows works as it stands."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from journal.clock import SystemClock
from tests.tools.host.host_files import template, written
from tests.tools.host.test_policies import request
from tools.host.file import load_host_file
from tools.host.policies.builtin import policy_of
from tools.host.policies.port import PolicyRequest, ask
from tools.host.sections import POLICIES

PAGE = (Path(__file__).parents[3] / "docs" / "admission.md").read_text(encoding="utf-8")
PROGRAM, *_ = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
(SHELL,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
FILES = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


def test_the_page_names_every_policy():
    assert re.findall(r'^\| `"([a-z-]+)"`', PAGE, re.MULTILINE) == list(POLICIES)


@pytest.mark.parametrize("shown", FILES, ids=lambda shown: tomllib.loads(shown).popitem()[0])
def test_what_is_shown_of_a_host_file_is_accepted(tmp_path, shown):
    text = template(tmp_path)
    for section in tomllib.loads(shown):
        text, count = re.subn(rf"^\[{section}\]\n.*?(?=^\[(?!\[{section}))", "", text, flags=re.MULTILINE | re.DOTALL)
        assert count == 1
    load_host_file(written(tmp_path, text + shown))
    assert len(FILES) == 4


@pytest.mark.parametrize(
    ("evidence_ref", "decision"),
    [("file:handbook/회의.md", "accept"), ("evidence:minutes", "adjudication_required")],
)
def test_the_program_answers_as_it_must(tmp_path, evidence_ref, decision):
    path = tmp_path / "policy.py"
    path.write_text(PROGRAM, encoding="utf-8")
    path.chmod(0o700)
    clock = SystemClock()
    (section,) = [shown for shown in FILES if "policy.py" in shown]
    text, _ = re.subn(
        r"^\[admission\]\n.*?(?=^\[(?!\[admission))", "", template(tmp_path), flags=re.MULTILINE | re.DOTALL
    )
    admission = replace(load_host_file(written(tmp_path, text + section)).admission, timeout_seconds=20)
    policy = policy_of(admission, clock)
    asked = request("handbook", "1", deadline=clock.now() + 20_000)
    fields = {name: getattr(asked, name) for name in PolicyRequest.__struct_fields__}
    assert ask(policy, PolicyRequest(**{**fields, "evidence_ref": evidence_ref}), clock).decision == decision


def test_a_person_can_ask_the_program(tmp_path):
    path = tmp_path / "policy.py"
    path.write_text(PROGRAM, encoding="utf-8")
    path.chmod(0o700)
    asked = ["/bin/sh", "-c", SHELL]
    done = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["decision"] == "accept"
