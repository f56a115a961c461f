"""The MCP inspector's command line against the real server, installed for the run into a folder of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest

from tests.hostile.served import Store
from tests.tools.cli.desk import command_line
from tests.tools.memory.world import PURPOSE, ROOT
from tools.host.capabilities import SEARCH

VERSION = "0.15.0"  # it runs on Node 20; its files are kept nowhere
INSTALL_SECONDS = 90
RUN_SECONDS = 40

pytestmark = pytest.mark.timeout(2 * INSTALL_SECONDS)


@pytest.fixture(scope="module")
def inspector(tmp_path_factory):
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is missing: the inspector's command line is not tried")
    folder = tmp_path_factory.mktemp("inspector")
    words = [npm, "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts", "--silent"]
    environment = os.environ | {"npm_config_cache": str(folder / "cache")}
    try:
        subprocess.run(
            [*words, f"@modelcontextprotocol/inspector@{VERSION}"], cwd=folder, capture_output=True, check=True,
            timeout=INSTALL_SECONDS, env=environment,
        )  # fmt: skip
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        pytest.skip("npm cannot install the inspector here: its command line is not tried")
    return folder / "node_modules" / ".bin" / "mcp-inspector"


@pytest.fixture
def ask(inspector, tmp_path):
    store = Store.make(tmp_path)

    def asked(*words):
        settings = [each for pair in (f"ENGRAM_CONFIG={store.config}", f"PYTHONPATH={ROOT}") for each in ("-e", pair)]
        done = subprocess.run(
            [str(inspector), "--cli", *settings, *command_line("serve"), *words], capture_output=True, check=True,
            timeout=RUN_SECONDS, cwd=tmp_path,
        )  # fmt: skip
        return json.loads(done.stdout)

    return asked


def test_it_lists_the_tools(ask):
    tools = ask("--method", "tools/list")["tools"]
    assert SEARCH in {tool["name"] for tool in tools}
    assert all(tool["inputSchema"]["additionalProperties"] is False for tool in tools)


def test_it_calls_a_tool(ask):
    words = ["--tool-arg", "query=nonsense", "--tool-arg", f"purpose_ref={PURPOSE}", "--tool-arg", "limit=3"]
    result = ask("--method", "tools/call", "--tool-name", SEARCH, *words)
    [packet] = result["structuredContent"]["output"]["value"]["records"]
    assert packet["record"]["components"][0]["text"] == "What was there before any nonsense came."
    assert not result["isError"]


def test_a_refusal_reaches_it_as_one(ask):
    result = ask("--method", "tools/call", "--tool-name", SEARCH, "--tool-arg", "query=nonsense")
    assert result["isError"]
    assert result["structuredContent"]["error"]["code"] == "INVALID_SCHEMA"
