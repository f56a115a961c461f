"""What docs/deploy gives people to copy: it can be read, and the commands and sections in it are ours."""

from __future__ import annotations

import configparser
import plistlib
import re
import shlex
import tomllib

import click
import msgspec
import pytest

from tests.tools.memory.world import ROOT
from tools.cli.main import root
from tools.host.capabilities import ALL_TOOLS
from tools.host.http import Ceiling, flaw_of
from tools.host.sections import HttpSection

DEPLOY = ROOT / "docs" / "deploy"
GUIDE = (DEPLOY / "README.md").read_text(encoding="utf-8")
CEILING = Ceiling(tenant="default", workspaces=["default", "research"], tools=ALL_TOOLS, purposes=["purpose:work"])


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
def test_the_sections_of_the_guide_hold(block):
    section = msgspec.convert(tomllib.loads(block)["http"], HttpSection)
    assert section.principals
    assert flaw_of(section, CEILING) is None


def test_the_commands_of_the_guide_are_ours():
    lines = [line.partition("#")[0] for line in GUIDE.splitlines() if line.startswith("engram ")]
    assert len(lines) == 2
    assert [parsed(shlex.split(line)[1:])[0] for line in lines] == ["init", "serve"]
