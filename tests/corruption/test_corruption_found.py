"""What damage to files was answered wrongly when it was first tried, each by itself; and the real server beside it."""

from __future__ import annotations

import os
from contextlib import closing, suppress
from pathlib import Path

import pytest

from journal.errors import JournalCorrupt, ProjectionStale
from journal.store.lmdb import markers
from projections import marks
from projections.environment import Unusable
from tests.corruption.asking import CODES, ask, copied, doubled, opened, reduced, speakers
from tests.corruption.pages import COMMIT_NUMBER_AT, PAGE_BYTES, DataFile, flip
from tests.corruption.template import CONFIG, STORE, bound
from tests.corruption.verdict import DETECTED, MENDED, WRONG, Control, judged
from tests.hostile.served import ServedStore
from tools.host.capabilities import CAPTURE, GET

JOURNAL = Path(STORE) / "journal" / "data.mdb"


@pytest.fixture
def binding(template):
    return bound(template.directory / CONFIG)


@pytest.fixture(scope="module")
def control(template, tmp_path_factory):
    place = tmp_path_factory.mktemp("control") / "store"
    copied(template.new, place)
    found = ask(place, template, bound(template.directory / CONFIG))
    return Control(found, found)


@pytest.mark.parametrize("same_boot", [False, True], ids=["another boot", "same boot"])
def test_changed_bits_of_every_projection_at_rest_are_never_served(template, binding, control, tmp_path, same_boot):
    """Found by it: hits that were missing without a word, and servers that died by SIGBUS."""
    place = tmp_path / "store"
    copied(template.new, place, went_down=not same_boot)
    changed = _every_projection_changed(place)
    outcome, why = judged(ask(place, template, binding, same_boot=same_boot), control)
    assert outcome == MENDED
    assert len(why.split(", ")) == len(changed) == 12


def test_changed_projections_that_nobody_looks_at_are_answered_wrongly(
    template, binding, control, tmp_path, monkeypatch
):
    """The control of the one before, one page at a time."""
    monkeypatch.setattr(marks, "trusted", lambda directory: directory.exists())
    outcomes = set()
    for source in template.new.rglob("timeline/*/data.mdb"):
        for page in DataFile(source, source.name).pages("leaf"):
            copied(template.new, tmp_path / "store", went_down=False)
            flip(tmp_path / "store" / source.relative_to(template.new), page * PAGE_BYTES + 17, 0)
            outcomes.add(judged(ask(tmp_path / "store", template, binding, same_boot=True), control)[0])
    assert WRONG in outcomes


def _every_projection_changed(place):
    changed = [path for path in place.rglob("data.mdb") if "projections" in path.parts and "vector" not in path.parts]
    for path in changed:
        pages = DataFile(path, path.name)
        for page in pages.pages("leaf"):
            flip(path, page * PAGE_BYTES + 4090, 3)  # in the first node that was put there
    return changed


@pytest.mark.parametrize("went_down", [False, True])
@pytest.mark.parametrize("harm", [lambda path: path.unlink(), lambda path: os.truncate(path, 0)], ids=["gone", "empty"])
def test_a_journal_that_is_gone_is_no_new_store(template, binding, control, tmp_path, harm, went_down):
    """Found by it: a store that said NOT_FOUND of everything."""
    place = tmp_path / "store"
    copied(template.new, place, went_down=went_down)
    harm(place / JOURNAL)
    assert judged(ask(place, template, binding, same_boot=not went_down), control) == (DETECTED, JournalCorrupt.code)


def test_a_branch_that_leads_elsewhere_hides_no_row_of_the_journal(template, binding, control, tmp_path):
    """Found by it: records that were NOT_FOUND, and a capture that was made twice, though the walk met every row."""
    source = template.new / JOURNAL
    outcomes = []
    for span in (span for span in DataFile(source, str(JOURNAL)).spans() if span.kind == "branch nodes"):
        for at in range(span.start + 26, span.stop, 101):
            copied(template.new, tmp_path / "store")
            flip(tmp_path / "store" / JOURNAL, at, 2)
            outcomes.append(judged(ask(tmp_path / "store", template, binding, folded=False), control))
    assert len(outcomes) > 4
    assert WRONG not in dict(outcomes), outcomes


@pytest.mark.parametrize("bit", [0, 2, 5])
@pytest.mark.parametrize("meta", [0, 1])
def test_a_changed_number_of_a_commit_takes_no_older_one_for_the_last(template, binding, control, tmp_path, meta, bit):
    """Found by it: the last event was gone, and everything else agreed."""
    copied(template.new, tmp_path / "store")
    flip(tmp_path / "store" / JOURNAL, meta * PAGE_BYTES + COMMIT_NUMBER_AT, bit)
    found = judged(ask(tmp_path / "store", template, binding), control)
    assert found == (DETECTED, JournalCorrupt.code)


def test_a_projection_that_lacks_a_row_is_stale_and_taken_out_of_force(template, binding, tmp_path):
    """Found by it: an error that is none of the contract's, from a search in a damaged dictionary."""
    copied(template.new, tmp_path / "store", went_down=False)
    with closing(opened(tmp_path / "store", binding)) as engine:
        projections = engine.projections(binding.scope)
        before = projections.generations("lexical").current()
        with pytest.raises(ProjectionStale), projections.snapshot():
            raise Unusable("a table misses a row")
        with projections.snapshot():
            assert projections.generations("lexical").current() != before


@pytest.fixture
def place(template, tmp_path):
    """A copy of the store, as it was closed in this boot."""
    copied(template.new, tmp_path / "store", went_down=False)
    return tmp_path / "store"


def _hide(place, table, key):
    """Change the last bit of a row's key, so that no search finds the row, in whatever pages it stands."""
    raw = (place / JOURNAL).read_bytes()
    found = [at for at in range(len(raw)) if raw.startswith(key, at)]
    assert found, table
    for at in found:
        flip(place / JOURNAL, at + len(key) - 1, 0)


def test_a_record_that_the_pages_of_an_open_journal_hide_is_not_told_to_be_unknown(template, binding, place):
    """Found by it: NOT_FOUND of a record that is there, while the process served it and after it was restarted."""
    asks = [each for each in template.asks if each.tool == GET and not each.beside]
    with closing(opened(place, binding)) as engine:
        agent = speakers(engine)[0]
        ask_ = next(each for each in asks if "record" in reduced(agent.call(GET, each.arguments)))
        _hide(place, "record", binding.scope.tag + ask_.arguments["record_id"].encode())
        assert reduced(agent.call(GET, ask_.arguments)) == {"code": JournalCorrupt.code}
        unknown = {**ask_.arguments, "record_id": "mem_" + 52 * "a"}
        assert reduced(agent.call(GET, unknown)) == {"code": "NOT_FOUND"}


def test_a_capture_that_the_pages_of_an_open_journal_hide_is_not_refused_as_illegal(template, binding, place):
    """Found by it: ILLEGAL_TRANSITION of a capture that was sent again."""
    with closing(opened(place, binding)) as engine:
        agent = speakers(engine)[0]
        made = reduced(agent.call(CAPTURE, template.retried))
        with engine.journal.store.view(binding.scope) as view:
            subject = view.subject(made["candidate_id"])
            assert subject is not None
            event = view.event(subject.born)
        assert event is not None
        _hide(place, "outcome", binding.scope.tag + event.header.event_id)
        assert reduced(agent.call(CAPTURE, template.retried)) == {"code": JournalCorrupt.code}
        assert doubled(engine) is None


@pytest.mark.parametrize("kind", ["branch", "leaf"])
def test_who_comes_after_a_process_that_its_pages_ended_is_not_ended_too(template, binding, control, place, kind):
    """Found by it: SIGBUS and SIGABRT of the one that was started anew. Nothing was walked after a kill."""
    outcomes = set()
    for page in DataFile(place / JOURNAL, "").pages(kind)[::9]:
        copied(template.new, place, went_down=False)
        _left_open(place)
        fd = os.open(place / JOURNAL, os.O_RDWR)
        os.pwrite(fd, bytes(PAGE_BYTES), page * PAGE_BYTES)
        os.close(fd)
        outcomes.add(judged(ask(place, template, binding, folded=False, same_boot=True), control))
    assert outcomes == {(DETECTED, JournalCorrupt.code)}


def _left_open(place):
    """Leave the mark of a process that was killed in this boot."""
    folder = place / STORE / "journal" / "open"
    folder.mkdir(exist_ok=True)
    (folder / ("1" * 32)).write_text(markers.boot_id() + "\n", encoding="utf-8")


@pytest.mark.parametrize("harm", ["cut", "overwritten"])
def test_the_real_server_gives_no_wrong_answer_when_its_journal_is_cut_or_overwritten(template, tmp_path, harm):
    place = tmp_path / "store"
    copied(template.new, place, went_down=False)
    config = tmp_path / CONFIG
    text = (template.directory / CONFIG).read_text(encoding="utf-8")
    config.write_text(text.replace(str(template.new), str(place)), encoding="utf-8")
    right = _served(config, template)
    damaged = DataFile(place / JOURNAL, "")
    server = ServedStore(config)
    server.read()
    server.handshake()
    try:
        assert _asked(server, template) == right
        if harm == "cut":
            os.truncate(place / JOURNAL, 2 * PAGE_BYTES)
        for page in damaged.pages("leaf") if harm != "cut" else ():
            with (place / JOURNAL).open("r+b") as file:
                file.seek(page * PAGE_BYTES)
                file.write(bytes(PAGE_BYTES))
        with suppress(AssertionError, BrokenPipeError):  # it may die of it
            _hold(_asked(server, template), right)
    finally:
        server.kill()
    with suppress(AssertionError, BrokenPipeError):  # it is not opened any more
        _hold(_served(config, template), right)


def _served(config, template):
    server = ServedStore(config)
    server.read()
    try:
        server.handshake()
        return _asked(server, template)
    finally:
        server.kill()


def _asked(server, template):
    answers = []
    for number, ask_ in enumerate(ask_ for ask_ in template.asks if ask_.tool == GET and not ask_.beside):
        params = {"name": ask_.tool, "arguments": ask_.arguments}
        answer = server.ask({"id": f"ask-{number}", "method": "tools/call", "params": params})
        envelope = answer["result"]["structuredContent"]
        answers.append(envelope["output"]["value"]["record"] if envelope["ok"] else envelope["error"]["code"])
    return answers


def _hold(answers, right):
    """Fail the test by an exception that nobody suppresses where an answer is wrong."""
    for one, other in zip(answers, right, strict=True):
        if one != other and not (isinstance(one, str) and one in CODES):
            pytest.fail(f"{one} is answered, not {other}")
