"""The brief is never over its bound, never cuts a profile or a pinned line, and lets the least give way first."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from journal import limits
from journal.messages import MessageState
from tests.tools.conversation.talks import Speaker, speaker
from tests.tools.memory.world import NOW, World
from tools.conversation.brief import one_line
from tools.conversation.save_message import working_directory
from tools.host.capabilities import ALL_TOOLS, MEMORY_STARTUP
from tools.server.instructions import instructions

DAY = 86_400_000
SYLLABLES = st.sampled_from(
    [
        "가나다 ",
        "빌드",
        "워크스페이스를 ",
        "\U0001f680",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467",
        "plain words ",
        "# ",
        "\n",
        "- ",
        "長い",
        "\u2028",
    ]
)


def texts(most: int) -> st.SearchStrategy[str]:
    """Texts that are not blank, up to so many characters."""
    return st.builds(
        lambda parts, times: ("x" + "".join(parts) * times)[:most],
        st.lists(SYLLABLES, min_size=1, max_size=6),
        st.integers(1, 200),
    )


def bounded(one: Speaker, most: int) -> Speaker:
    """Return the same agent under another bound."""
    binding = one.engine.binding
    one.engine.binding = dataclasses.replace(
        binding, conversation=dataclasses.replace(binding.conversation, brief_max_chars=most)
    )
    return one


def lines_under(brief: str, heading: str) -> list[str]:
    """Return the lines under a heading, up to the blank one."""
    lines = brief.split("\n")
    if heading not in lines:
        return []
    below = lines[lines.index(heading) + 1 :]
    return below[: below.index("")] if "" in below else below


@pytest.fixture
def stores(directory):
    """Return a fresh store each time it is asked."""
    numbers = itertools.count()
    return lambda: World(directory / f"store-{next(numbers)}")


@settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], phases=set(Phase) - {Phase.explain}
)
@given(
    most=st.integers(limits.BRIEF_CEILING_MIN_CHARACTERS, limits.BRIEF_CEILING_MAX_CHARACTERS),
    profile=st.tuples(
        st.one_of(st.just(""), texts(1_000)), st.one_of(st.just(""), texts(2_000)),
        st.sampled_from(["", "김", "n" * 100]),
    ),
    pinned=st.lists(texts(700), max_size=6), times=st.sampled_from([0, 1, 5, 80]),
    recent=st.lists(texts(900), max_size=14), is_separate=st.booleans(),
)  # fmt: skip
def test_whatever_is_remembered_the_brief_keeps_its_bound(stores, most, profile, pinned, times, recent, is_separate):
    world = stores()
    try:
        one = bounded(speaker(world), most)
        if any(profile):
            one.profile(*profile)
        one.project("engram")
        everything = [f"{number} {text}" for number, text in enumerate(pinned * times)]
        old = [NOW - 40 * DAY + number for number in range(len(everything))]
        one.tell(everything, at=old, state=MessageState.PINNED)
        said = one.tell(recent, at=[NOW - number for number in range(len(recent))])
        for message_id in said[:3]:
            one.tag(message_id, "engram")
        told = one.brief(agent_platform_filter=is_separate)
    finally:
        world.close()
    assert len(told) <= most
    assert profile[0].strip("\n") in told
    assert profile[1].strip("\n") in told
    shown = lines_under(told, "## Pinned")
    whole = {f"- {one_line(text)}" for text in everything}
    more = [line for line in shown if line not in whole]
    assert len(more) == (len(shown) - len(more) < len(everything))
    if more:
        assert more == [f"- and {len(everything) - len(shown) + 1} more pinned: search_memory finds them"]
    assert len(set(shown)) == len(shown)


@pytest.fixture
def one(world):
    return speaker(world)


def pinned(one, count, text="약속은 반드시 지킨다"):
    instants = [NOW - 1_000 + number for number in range(count)]
    one.tell([f"{text} {number}" for number in range(count)], at=instants, state=MessageState.PINNED)
    return [f"- {text} {number}" for number in reversed(range(count))]


def test_five_hundred_pinned_lines_fill_the_brief_newest_first_and_the_rest_is_counted(one):
    lines = pinned(one, 500)
    told = one.brief()
    shown = lines_under(told, "## Pinned")
    assert shown[:-1] == lines[: len(shown) - 1]
    assert shown[-1] == f"- and {500 - len(shown) + 1} more pinned: search_memory finds them"
    assert limits.BRIEF_MAX_CHARACTERS - 40 < len(told) <= limits.BRIEF_MAX_CHARACTERS


def test_a_pinned_line_that_no_brief_holds_keeps_no_other_out(one):
    lines = pinned(one, 3)
    one.keep("벽" * 20_000)
    shown = lines_under(one.brief(), "## Pinned")
    assert shown == [*lines, "- and 1 more pinned: search_memory finds them"]


def test_what_stands_where(world, one):
    one.profile("Kim builds engram.\nNever at night.", "likes tea\nhates mondays", "Kim")
    one.project("engram")
    one.keep("pinned one")
    world.clock.advance(milliseconds=1)
    first = one.save("first said")
    one.tag(first, "engram")
    world.clock.advance(seconds=60)
    one.save("then answered\nat length", "assistant")
    one.tell(["said elsewhere"], agent_platform="claude-code", cwd="elsewhere")
    assert one.brief() == (
        "# Kim\nKim builds engram.\nNever at night.\n\n## Profile\nlikes tea\nhates mondays\n\n"
        "## Pinned\n- pinned one\n\n"
        "## Projects of the last 3 days\n- engram: 1 messages, last 2025-08-16 22:14\n\n"
        "## Recent on codex\n- 2025-08-16 22:14 user (codex): first said\n"
        "- 2025-08-16 22:15 codex: then answered at length\n\n"
        "## Recent elsewhere\n- 2025-08-16 22:15 user (claude-code): said elsewhere"
    )


def test_nothing_remembered_says_so(one):
    assert one.brief() == "Nothing is remembered yet. Save what matters with save_message."


def test_the_oldest_recent_lines_give_way_first_then_the_projects(one):
    bounded(one, 4_000)
    one.project("engram")
    recent = one.tell(
        [f"{number} " + "말" * 380 for number in range(8)], at=[NOW - 8_000 + number for number in range(8)]
    )
    one.tag(recent[0], "engram")
    assert len(lines_under(one.brief(), "## Recent on codex")) == 8
    one.profile("핵심" * 500, "나머지" * 600)
    told = one.brief()
    shown = lines_under(told, "## Recent on codex")
    assert 0 < len(shown) < 8
    assert shown[-1].split(": ")[1].startswith("7 ")
    assert [line.split(": ")[1][0] for line in shown] == [str(number) for number in range(8 - len(shown), 8)]
    assert "## Projects of the last 3 days" in told
    pinned(one, 200)
    told = one.brief()
    assert "## Recent on codex" not in told
    assert "## Projects of the last 3 days" not in told
    assert "핵심" * 500 in told
    assert "나머지" * 600 in told
    assert len(told) <= 4_000


def test_the_window_is_of_days(one):
    one.tell(
        ["today", "two days ago", "ten days ago", "forty days ago"],
        at=[NOW, NOW - 2 * DAY, NOW - 10 * DAY, NOW - 40 * DAY],
    )
    assert "two days ago" in one.brief()
    assert "ten days ago" not in one.brief()
    assert "two days ago" not in one.brief(short_term_days=1)
    assert "ten days ago" in one.brief(short_term_days=30)
    assert "forty" not in one.brief(short_term_days=30)


def test_a_hosts_own_window_serves_who_does_not_say(world):
    one = speaker(world, talk={"short_term_days": 12})
    one.tell(["ten days ago"], at=[NOW - 10 * DAY])
    assert "ten days ago" in one.brief()
    assert "ten days ago" not in one.brief(short_term_days=3)


@pytest.mark.parametrize(
    "arguments",
    [{"short_term_days": 0}, {"short_term_days": 31}, {"short_term_days": None}, {"short_term_days": "3"}, {"days": 3},
     {"agent_platform_filter": 1}, {"agent_platform": "codex"}],
    ids=repr,
)  # fmt: skip
def test_what_does_not_fit_is_refused(one, arguments):
    assert one.code(MEMORY_STARTUP, arguments) == "INVALID_SCHEMA"


def test_the_current_platform_stands_apart_unless_told_otherwise(one):
    one.tell([f"mine {number}" for number in range(20)], at=[NOW - 50_000 + number for number in range(20)])
    one.tell(
        [f"theirs {number}" for number in range(20)],
        at=[NOW - 100_000 + number for number in range(20)],
        agent_platform="openclaw",
    )
    told = one.brief()
    assert [line.split(": ")[1] for line in lines_under(told, "## Recent on codex")] == [
        f"mine {number}" for number in range(12, 20)
    ]
    assert [line.split(": ")[1] for line in lines_under(told, "## Recent elsewhere")] == [
        f"theirs {number}" for number in range(16, 20)
    ]
    together = lines_under(one.brief(agent_platform_filter=False), "## Recent")
    assert [line.split(": ")[1] for line in together] == [f"mine {number}" for number in range(8, 20)]
    one.client = "openclaw-cli"
    assert len(lines_under(one.brief(), "## Recent on openclaw")) == 8


def test_who_works_here_is_shown_what_others_said_here(one):
    here = working_directory()
    one.tell(["untagged elsewhere"], agent_platform="openclaw", cwd="elsewhere")
    one.tell(["untagged here"], agent_platform="openclaw", cwd=here)
    assert [line.split(": ")[1] for line in lines_under(one.brief(), "## Recent on codex")] == ["untagged here"]
    assert [line.split(": ")[1] for line in lines_under(one.brief(), "## Recent elsewhere")] == ["untagged elsewhere"]


def test_a_project_last_worked_on_here_brings_its_whole_family(one):
    for name in ("engram", "엔그램", "other"):
        one.project(name)
    one.alias("엔그램", "engram")
    (here,) = one.tell(["said here"], cwd=working_directory())
    (away, other) = one.tell(["of the family", "of the other"], agent_platform="openclaw", cwd="elsewhere")
    one.tag(here, "엔그램")
    one.tag(away, "engram")
    one.tag(other, "other")
    own = {line.split(": ")[1] for line in lines_under(one.brief(), "## Recent on codex")}
    assert own == {"said here", "of the family"}


def test_projects_are_those_of_the_window_newest_use_first(one):
    ids = one.tell(["a", "b", "c"], at=[NOW - 2, NOW - 1, NOW - 10 * DAY])
    for name, message_id in zip(("alpha", "beta", "gamma"), ids, strict=True):
        one.project(name)
        one.tag(message_id, name)
    shown = lines_under(one.brief(), "## Projects of the last 3 days")
    assert [line.split(":")[0] for line in shown] == ["- beta", "- alpha"]
    assert "- gamma: 1 messages" in one.brief(short_term_days=11)


def test_a_pinned_message_is_not_said_twice_and_an_archived_one_not_at_all(one):
    one.keep("only once")
    away = one.save("put away")
    one.know("remove", memory_id=away)
    told = one.brief()
    assert told.count("only once") == 1
    assert "put away" not in told


# --- the server's instructions ---------------------------------------------------------------------


def told_at_first(one):
    return instructions(one.service.purposes(), one.service.listed_tools(), one.service.remembered(10))


@pytest.mark.parametrize("count", [0, 1, 40, 500])
def test_instructions_are_cut_between_lines_only_and_end_with_the_hint(one, count):
    core = "\n".join(f"핵심 정체성 {number}: 밤에는 깨우지 않는다" for number in range(5))
    one.profile(core, "never told here", "김")
    lines = pinned(one, count)
    told = told_at_first(one)
    assert len(told.encode()) <= 2_000
    assert told.split("\n")[-1] == "Call memory_startup now, once, before anything else."
    assert core in told
    shown = [line for line in told.split("\n") if "약속은" in line]
    assert shown == lines[: len(shown)]
    assert bool(shown) is bool(count)
    assert "never told here" not in told


def test_instructions_tell_nothing_to_whoever_may_not_ask_for_the_brief(world):
    speaker(world).profile("a core", "", "Kim")
    denied = speaker(world, granted=frozenset(ALL_TOOLS) - {MEMORY_STARTUP})
    assert denied.service.remembered(10) is None
    assert "a core" not in told_at_first(denied)


def test_a_store_that_does_not_answer_in_time_tells_nothing(one):
    one.profile("a core")
    assert one.service.remembered(-1) is None
    assert one.service.remembered(10).core_profile == "a core"
