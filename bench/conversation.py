"""A user with many messages: saving, folding, the brief, search by words and by parts of words, all in process.

    python bench/conversation.py --data DIR [--messages N] [--keep DIR]

The texts are those of LoCoMo and KorQuAD in DIR, cut to 50 to 400 characters, over sixty days and four platforms.
Medians, and the 95th percentile, over 200 asked things each.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from journal import layout, limits
from journal.events import EventType
from journal.log import Journal
from journal.messages import MessageState
from projections.serving import BRIEF, MESSAGES
from tools.conversation.brief import Asked, brief
from tools.conversation.search_memory import search_memory
from tools.conversation.utterances import content_of, ledger_draft, message_draft
from tools.memory.call import Call
from tools.memory.engine import Engine

sys.path.insert(0, str(Path(__file__).resolve().parent))  # its neighbours, whatever the working directory

from commit import binding

PLATFORMS = ("claude-code", "codex", "gemini-cli", "chatgpt")
DAY_MILLISECONDS = 86_400_000
PINNED_EVERY = 2_000
ASKED = 200


def texts(data: Path) -> list[str]:
    """Return real texts, Korean and English, in an order that a seed fixes."""
    found = []
    for talk in json.loads((data / "locomo-first5.json").read_text(encoding="utf-8")):
        for name, turns in talk["conversation"].items():
            if isinstance(turns, list) and not name.endswith("date_time"):
                found += [turn["text"] for turn in turns]
    for article in json.loads((data / "KorQuAD_v1.0_dev.json").read_text(encoding="utf-8"))["data"]:
        found += [paragraph["context"] for paragraph in article["paragraphs"]]
    chosen = random.Random(7)
    chosen.shuffle(found)
    return found


def utterances(data: Path, count: int) -> Iterator[str]:
    """Yield so many texts of 50 to 400 characters; later rounds cut the long ones elsewhere."""
    chosen, sources = random.Random(11), texts(data)
    for number in range(count):
        source = sources[number % len(sources)]
        size = chosen.randint(50, 400)
        start = chosen.randint(0, max(0, len(source) - size))
        yield f"{source[start : start + size]} ({number})"


def fill(engine: Engine, data: Path, count: int) -> float:
    """Write the messages, 256 a transaction; return the seconds that took."""
    scope, journal, actor = engine.binding.scope, engine.journal, engine.binding.actor()
    began, now = time.perf_counter(), engine.clock.now()
    said = utterances(data, count)
    for first in range(0, count, limits.BATCH_MAX_EVENTS):
        drafts = []
        for number in range(first, min(count, first + limits.BATCH_MAX_EVENTS)):
            role = "user" if number % 3 == 0 else "assistant"
            content = content_of(
                message=next(said), role=role, agent_platform=PLATFORMS[number % 4], device_name="bench", cwd="/bench",
                created_at=now - 60 * DAY_MILLISECONDS * (count - number) // count,
                agent_model=None if role == "user" else "bench",
            )  # fmt: skip
            state = MessageState.PINNED if number % PINNED_EVERY == 0 else MessageState.ACTIVE
            drafts.append(message_draft(journal, scope, actor, journal.take_key(scope), content, state=state))
        journal.commit(scope, lambda _view, drafts=drafts: drafts)  # type: ignore[misc]
    profile = {
        "user_name": "\uae40\ud558\ub098", "core_profile": "\uc0ac\uc6a9\uc790\ub294 \ud55c\uad6d\uc5b4\ub97c "
        "\uc120\ud638\ud55c\ub2e4. " * 20, "sub_profile": "Runs storage engines.\n" * 30, "action": "set", "by": "hand",
    }  # fmt: skip
    draft = ledger_draft(journal, scope, actor, EventType.PROFILE, profile)
    journal.commit(scope, lambda _view: [draft])
    return time.perf_counter() - began


def told(name: str, action: Callable[[str], Any], asked: Sequence[str]) -> None:
    """Print how long an action takes over what is asked, and how much it finds."""
    times, found = [], 0
    for question in asked:
        began = time.perf_counter()
        answer = action(question)
        times.append((time.perf_counter() - began) * 1000)
        found += answer["count"] if isinstance(answer, dict) else len(answer)
    p95 = statistics.quantiles(times, n=20)[-1]
    print(f"{name}: p50 {statistics.median(times):.2f} ms, p95 {p95:.2f} ms; {found / len(asked):.1f} results on average")


def queries(data: Path) -> list[str]:
    """Return things that people ask: the questions of both sets."""
    asked = [each["question"] for talk in json.loads((data / "locomo-first5.json").read_text(encoding="utf-8"))
             for each in talk["qa"]]
    for article in json.loads((data / "KorQuAD_v1.0_dev.json").read_text(encoding="utf-8"))["data"]:
        asked += [qa["question"] for paragraph in article["paragraphs"] for qa in paragraph["qas"][:1]]
    return random.Random(13).sample(asked, ASKED)


def parts(data: Path, count: int) -> list[str]:
    """Return parts of texts that begin and end inside words, so that no word is found: the fallback's own case."""
    chosen, found = random.Random(17), []
    for text in utterances(data, count):
        words = [word for word in text.split() if word.isalpha() and word.isascii() and len(word) >= 8]
        if words and chosen.random() < 0.05:
            word = chosen.choice(words)
            found.append(word[2:-2])
        if len(found) == ASKED:
            break
    return found


def rss_anon_mebibytes() -> float:
    """Return this process's anonymous memory."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon:"))


def measure(engine: Engine, data: Path, count: int) -> None:
    """Print the figures of a filled store."""
    scope = engine.binding.scope

    def call() -> Call:
        return Call(
            binding=engine.binding, actor=engine.binding.actor(), now=engine.clock.now(), client_name="codex",
            deadline=time.monotonic() + 3_600,
        )  # fmt: skip

    began = time.perf_counter()
    with engine.projections(scope).snapshot(None, {*MESSAGES, *BRIEF}) as snapshot:
        folded = time.perf_counter() - began
        print(f"folded {snapshot.cursor:,} events in {folded:.0f} s, {folded / snapshot.cursor * 1e6:.0f} us each")
    asked = Asked(platform="codex", days=3, place="/bench")
    told("brief", lambda _: brief(engine, call(), asked), [""] * ASKED)
    told("search by words", lambda query: search_memory(engine, call(), {"query": query}), queries(data))
    told("by parts of words", lambda query: search_memory(engine, call(), {"query": query}), parts(data, count))
    told("newest first", lambda _: search_memory(engine, call(), {"limit": 10}), [""] * ASKED)
    print(f"RssAnon {rss_anon_mebibytes():.0f} MiB")


def main() -> None:
    """Fill a store and measure, or measure the one that was kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--keep", type=Path, help="a directory to keep the store in, or the one that was kept")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        place = options.keep or Path(directory) / "store"
        fresh = not place.exists()
        if fresh:
            layout.create(place, "bench")
        engine = Engine(Journal.open(place, bytes(32)), binding())
        if fresh:
            seconds = fill(engine, options.data, options.messages)
            print(f"wrote {options.messages:,} messages in {seconds:.0f} s")
        measure(engine, options.data, options.messages)
        engine.close()


if __name__ == "__main__":
    main()
