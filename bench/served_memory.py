"""What memory a server takes that has searched a large workspace by words: its RssAnon, which no other process shares.

    python -m bench.served_memory --data DIR [--documents N] [--queries N]

A store is filled with records whose texts are those of LoCoMo and KorQuAD in DIR. A real ``engram serve`` over stdio
then answers the official client's searches one by one; its memory is read before the first and after the last.
"""

from __future__ import annotations

import argparse
import base64
import tempfile
from pathlib import Path

import anyio
from mcp import StdioServerParameters
from mcp.client import Client

from bench.conversation import utterances
from bench.search_speed import questions
from bench.searching.live import LiveStore
from bench.startup import ENGRAM, ROOT

_PURPOSE = "purpose:bench"


def host_file_of(place: Path) -> Path:
    """Write the host file and root key of a store that ``LiveStore`` made in a directory."""
    key, host_file = place / "root.key", place / "engram.toml"
    key.touch(mode=0o600)
    key.write_text(base64.b64encode(bytes(32)).decode(), encoding="ascii")
    host_file.write_text(
        f"""[store]
path = "store"
[keys]
root = {{ file = "root.key" }}
[host]
tenant = "bench"
workspace = "bench"
principal = "bench"
enabled = true
tenant_enabled = true
[[purposes]]
ref = "{_PURPOSE}"
[grants]
tools = ["engram_memory_search"]
[admission]
policy = "accept-asserted"
""",
        encoding="utf-8",
    )
    return host_file


def rss_anon_bytes(pid: int) -> int:
    """Return a process's anonymous memory."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))


def server_of(host_file: Path) -> int:
    """Return the process that serves a host file: it is the only one that names it."""
    wanted = f"serve\0--config\0{host_file}\0".encode()
    lines = {int(each.parent.name): each.read_bytes() for each in Path("/proc").glob("[0-9]*/cmdline")}
    [pid] = [pid for pid, line in lines.items() if line.endswith(wanted)]
    return pid


async def served(host_file: Path, queries: list[str]) -> tuple[int, int]:
    """Ask a server everything; return its memory in bytes before and after."""
    words = [*ENGRAM, "serve", "--config", str(host_file)]
    parameters = StdioServerParameters(command=words[0], args=words[1:], cwd=ROOT)
    async with Client(parameters) as client:
        before = rss_anon_bytes(server_of(host_file))
        for query in queries:
            arguments = {"query": query, "purpose_ref": _PURPOSE, "limit": 10}
            result = await client.call_tool("engram_memory_search", arguments)
            assert not result.is_error, result.structured_content
        return before, rss_anon_bytes(server_of(host_file))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=500)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="engram-bench-") as directory:
        place = Path(directory)
        store = LiveStore(place / "store")
        store.fill(list(utterances(options.data, options.documents)))
        store.close()
        before, after = anyio.run(served, host_file_of(place), questions(options.data)[: options.queries])
    print(f"{options.documents:,} records, {options.queries} searches: RssAnon {before / 1e6:.0f} MB before the first")
    print(f"and {after / 1e6:.0f} MB after the last")


if __name__ == "__main__":
    main()
