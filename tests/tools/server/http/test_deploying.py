"""What docs/deploy gives people to copy: it can be read, and the commands and sections in it are ours."""

from __future__ import annotations

import configparser
import plistlib
import re
import shlex

import click
import msgspec
import pytest

from journal.scope import Scope
from tests.tools.memory.world import ROOT
from tools.cli.init import DEFAULT_PURPOSE
from tools.cli.main import root
from tools.host.file import load_host_file
from tools.host.principals import bind_principal
from tools.host.template import render_host_file

DEPLOY = ROOT / "docs" / "deploy"
GUIDE = (DEPLOY / "README.md").read_text(encoding="utf-8")


def parsed(words):
    """Parse the words after the program's name as the command line does."""
    context = root.make_context("engram", list(words), resilient_parsing=False)
    name, command, rest = root.resolve_command(context, list(words))
    assert isinstance(command, click.Command)
    return name, command.make_context(str(name), rest, parent=context).params


def test_the_unit_starts_the_server():
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # names of systemd are case-sensitive
    unit.read(DEPLOY / "engram.service", encoding="utf-8")
    words = shlex.split(unit["Service"]["ExecStart"])
    assert words[0].endswith("/engram")
    name, said = parsed(words[1:])
    assert (name, said["transport"]) == ("serve", "http")


def test_the_agent_starts_the_server():
    agent = plistlib.loads((DEPLOY / "org.engram.memory.plist").read_bytes())
    assert agent["Umask"] == 0o077
    name, said = parsed(agent["ProgramArguments"][1:])
    assert (name, said["transport"]) == ("serve", "http")


def test_the_image_starts_the_server():
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    found = re.search(r"^CMD (\[.*\])$", text, flags=re.MULTILINE)
    assert found is not None
    words = msgspec.json.decode(found[1], type=list[str])
    name, said = parsed(words[1:])
    assert (name, said["transport"], said["host"]) == ("serve", "http", "0.0.0.0")  # noqa: S104 - in a container


@pytest.mark.parametrize("block", re.findall(r"^```toml\n(.*?)^```", GUIDE, flags=re.MULTILINE | re.DOTALL))
def test_the_sections_of_the_guide_hold(tmp_path, block):
    """Each is put into a host file as ``engram init`` writes it, where the guide says."""
    purposes = [DEFAULT_PURPOSE]
    text = render_host_file(
        store=tmp_path / "store", root_key_file=tmp_path / "root.key", scope=Scope.of("default", "default"),
        principal="host", purposes=purposes,
    )  # fmt: skip
    before, _, section = text.partition("\n[http]\n")
    assert not re.search(r"^\[", section, flags=re.MULTILINE), "it is the last section"
    host_file = tmp_path / "engram.toml"
    host_file.write_text((before if "\n[http]\n" in f"\n{block}" else text) + "\n" + block, encoding="utf-8")
    host_file.chmod(0o600)
    (principal,) = load_host_file(host_file).http.principals
    assert bind_principal(load_host_file(host_file), principal).purpose_refs == (DEFAULT_PURPOSE,)


def test_the_commands_of_the_guide_are_ours():
    lines = [line.partition("#")[0] for line in GUIDE.splitlines() if line.startswith("engram ")]
    names = [parsed(shlex.split(line)[1:])[0] for line in lines if " messages " not in line]
    assert names == ["init", "serve", "timeline"]
