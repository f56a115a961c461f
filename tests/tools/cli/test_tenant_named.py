"""--tenant: whoever is at the terminal works in every scope that the host file binds, and in no other."""

from __future__ import annotations

import pytest

from journal.scope import Scope
from tests.tools.cli.examined import examined
from tests.tools.cli.test_candidates import SECRET
from tests.tools.memory.world import PURPOSE, Caller, withdrawal
from tools.cli.main import root
from tools.cli.tenancy import workspaces_of
from tools.host.capabilities import ALL_TOOLS, WITHDRAW
from tools.host.file import load_host_file
from tools.host.principals import bind_principal
from tools.memory.engine import Engine

ACME = ("--tenant", "acme")
RESEARCH = (*ACME, "--workspace", "research")


def principal(name, workspace):
    return (
        f'[[http.principals]]\ntoken = "{name.lower()}"\nprincipal = "{name}"\ntenant = "acme"\ntenant_enabled = true\n'
        f'workspace = "{workspace}"\ntools = {list(ALL_TOOLS)}\npurposes = ["{PURPOSE}"]\n'
    )


def bind_also(desk, *people):
    """Let the host file bind further people of another tenant, by name and workspace."""
    text = desk.host_file.read_text(encoding="utf-8").partition("\n[http]\n")[0]
    tokens = "".join(f'[[http.tokens]]\nname = "{name.lower()}"\nenv = "{name.upper()}_TOKEN"\n' for name, _ in people)
    section = "\n[http]\n" + tokens + "".join(principal(*each) for each in people)
    desk.host_file.write_text(text + section, encoding="utf-8")
    return desk


def change(desk, old, new):
    text = desk.host_file.read_text(encoding="utf-8")
    assert old in text
    desk.host_file.write_text(text.replace(old, new, 1), encoding="utf-8")


@pytest.fixture
def acme(desk):
    """A desk whose host file binds Carol of another tenant."""
    return bind_also(desk, ("Carol", "research"))


def carol(desk):
    """Return the engine under Carol's binding. No command can run in this process until it is closed."""
    host_file = load_host_file(desk.host_file)
    return Engine.open(host_file, bind_principal(host_file, host_file.http.principals[0]))


def captured(desk, *texts):
    engine = carol(desk)
    try:
        return [Caller(engine).capture(text) for text in texts]
    finally:
        engine.close()


def test_the_candidates_of_another_tenant_are_decided(acme):
    first, second = captured(acme, "Carol's own.", "Carol's other.")
    assert acme.json("candidates", "list") == []
    listed = acme.json("candidates", "list", *RESEARCH)
    assert [each["candidate_id"] for each in listed] == [first, second]
    assert acme.json("candidates", "list", *ACME) == listed, "the only workspace that is bound there"
    acme.ok("candidates", "accept", first, *ACME)
    acme.ok("candidates", "reject", second, *RESEARCH)
    (record,) = acme.json("records", "list", *ACME)
    assert (record["candidate_id"], acme.json("records", "list")) == (first, [])
    assert acme.json("audit")["ok"]


def test_what_is_printed_to_be_typed_next_is_about_the_same_scope(acme):
    from tools.cli.invocation import word

    (candidate,) = captured(acme, f"aws_access_key_id={SECRET}")
    shown = acme.ok("candidates", "show", candidate, *RESEARCH).out
    (typed,) = [line for line in shown.splitlines() if "candidates reject" in line]
    assert (
        typed.strip()
        == f"{word()} candidates reject {candidate} --tenant acme --workspace research --config " + str(acme.host_file)
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--tenant", "nobody"), "binds nobody of that tenant; bind one there with tenant; there are default, acme"),
        (("--tenant", "ACME"), "did you mean acme?"),
        ((*ACME, "--workspace", "Research"), "did you mean research?"),
        (("--workspace", "defualt"), "did you mean default?"),
        ((*ACME, "--workspace", "default"), "binds nobody to that workspace"),
        (("--workspace", "research"), "--tenant: acme"),
        (("--tenant", "default", "--workspace", "research"), "does not list that workspace"),
    ],
)
def test_a_scope_that_the_host_file_does_not_bind(acme, words, said):
    ended = acme.run("candidates", "list", *words)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err


def test_of_several_workspaces_one_is_named(desk):
    bind_also(desk, ("Carol", "research"), ("Dave", "sales"))
    (candidate,) = captured(desk, "Carol's own.")
    ended = desk.run("candidates", "list", *ACME)
    assert (ended.code, ended.out) == (2, "")
    assert "--workspace: research, sales" in ended.err
    assert [each["candidate_id"] for each in desk.json("candidates", "list", *RESEARCH)] == [candidate]
    assert desk.json("candidates", "list", *ACME, "--workspace", "sales") == []


def test_the_hosts_own_tenant_may_be_named_too(acme):
    (candidate,) = acme.captured("The host's own.")
    assert acme.json("candidates", "list", "--tenant", "default")[0]["candidate_id"] == candidate
    assert acme.json("candidates", "list", *ACME) == []


def test_a_request_of_another_tenant_is_approved_as_whoever_asked_may(acme):
    engine = carol(acme)
    try:
        caller = Caller(engine)
        candidate = caller.capture("Carol's own.")
        caller.code(WITHDRAW, withdrawal(candidate))
    finally:
        engine.close()
    assert acme.json("confirm", "list", "--tenant", "default") == []
    (request,) = acme.json("confirm", "list", *ACME)
    assert request["principal"] == "Carol"
    acme.ok("confirm", "approve", request["confirmation_id"], *ACME)
    assert acme.json("candidates", "list", *ACME) == []


def test_the_conversations_of_another_tenant_lie_where_the_host_file_has_them(acme):
    text = acme.host_file.read_text(encoding="utf-8")
    listed = text.replace("[[purposes]]", '[[workspaces]]\nname = "talk"\n\n[[purposes]]', 1)
    assert "[conversation]\n" in listed
    acme.host_file.write_text(listed.replace("[conversation]\n", '[conversation]\nworkspace = "talk"\n'), "utf-8")
    assert workspaces_of(load_host_file(acme.host_file), "acme") == ("research", "talk")
    assert acme.json("timeline", *ACME, "--workspace", "talk") == []


def test_a_record_of_another_tenant_is_copied_to_workspaces_of_that_tenant_alone(desk):
    bind_also(desk, ("Carol", "research"), ("Dave", "sales"))
    (candidate,) = captured(desk, "Carol's own.")
    desk.ok("candidates", "accept", candidate, *RESEARCH)
    refused = desk.run("records", "copy", candidate, "--to", "default", *RESEARCH)
    assert (refused.code, refused.out) == (1, "")
    desk.ok("records", "copy", candidate, "--to", "sales", *RESEARCH)
    assert len(desk.json("candidates", "list", *ACME, "--workspace", "sales")) == 1
    assert len(desk.json("records", "show", candidate, *RESEARCH)["copies"]) == 1


def test_what_is_told_of_authority_names_the_tenant(desk):
    change(desk, "[[purposes]]", '[[workspaces]]\nname = "research"\n\n[[purposes]]')
    bind_also(desk, ("Carol", "research"))
    change(desk, 'principal = "Carol"', 'principal = "Dave"')
    granted = desk.ok("grants", "add", "--principal", "Dave", "--tool", WITHDRAW, "--expires", "8h").out
    assert granted.strip() == "granted: 1 tool in acme / research"
    assert "acme / research" in desk.ok("grants", "list").out
    raised = desk.ok("grants", "rotate", "--workspace", "research").out.splitlines()
    assert sorted(line.partition(":")[0] for line in raised) == [
        "raised in acme / research", "raised in default / research",
    ]  # fmt: skip
    told = desk.ok("grants", "history", "--tenant", "acme").out.splitlines()[1:]
    assert {line.partition("  ")[0] for line in told} == {"acme / research"}


def test_the_doctor_names_the_scope_in_what_it_says_to_run(acme):
    captured(acme, "Carol's own.")
    found = examined(acme)["CANDIDATES_WAIT"]
    assert found["subject"] == "acme / research"
    mend = found["mend"].partition("candidates list")[2].split()
    assert mend == [*RESEARCH]
    assert len(acme.json("candidates", "list", *mend)) == 1


def commands(group, path=()):
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        yield (*path, name), command
        if hasattr(command, "list_commands"):
            yield from commands(command, (*path, name))


def test_every_command_that_takes_a_workspace_takes_a_tenant():
    taking = {
        path: {option for parameter in command.params for option in parameter.opts} for path, command in commands(root)
    }
    assert len([path for path, options in taking.items() if "--workspace" in options]) > 40
    assert [path for path, options in taking.items() if "--workspace" in options and "--tenant" not in options] == []


def test_a_quoted_name_is_one_word():
    from tools.cli.invocation import scope_words

    assert scope_words(Scope.of("회사", "a b")) == " --tenant '회사' --workspace 'a b'"
