"""The embedder finds what is wanted by itself, and loses nothing to failures, forgettings, damage or a new model."""

from __future__ import annotations

import shutil
import threading

import pytest

from journal import layout, limits
from journal.lifecycle import Operation
from projections.vector.progress import Progress
from projections.vector.providers.port import EmbeddingFailed
from tests.projections.histories import SCOPE
from tests.projections.processes import Process
from tests.projections.vector.wordly import Wordly, down, refusing


def test_records_and_messages_in_force_are_embedded(space):
    _, first = space.accepted("the journal is append-only")
    space.capture("not accepted yet")
    _, second = space.say("hello there")
    embedder = space.embedder()
    assert embedder.progress() == Progress(embedded=0, wanted=2, failed=0)
    assert embedder.step() == 0
    assert space.embedded() == [first, second]
    assert embedder.progress() == Progress(embedded=2, wanted=0, failed=0)
    assert space.provider.asked == [["hello there", "the journal is append-only"]], "the newest comes first"


def test_what_is_embedded_is_not_embedded_again(space):
    space.accepted("one")
    space.embed()
    space.embed()
    assert space.provider.asked == [["one"]]


def test_nothing_is_written_to_the_journal(space):
    space.accepted("one")
    head = space.journal.store.head(SCOPE)
    space.embed()
    assert space.journal.store.head(SCOPE) == head


def test_batches_are_bounded_by_count_and_by_characters(space, monkeypatch):
    monkeypatch.setattr(limits, "VECTOR_BATCH_TEXTS", 2)
    monkeypatch.setattr(limits, "VECTOR_BATCH_CHARACTERS", 9)
    for text in ("aa", "bb", "cc", "dddddddddd", "e"):
        space.accepted(text)
    embedder = space.embedder()
    assert [embedder.step() for _ in range(4)] == [4, 3, 1, 0]
    assert space.provider.asked == [["e"], ["dddddddddd"], ["cc", "bb"], ["aa"]]


def test_past_the_deadline_no_provider_is_asked(space):
    space.accepted("one")
    embedder = space.embedder()
    embedder.progress()  # the projections stand at the head, so that nothing but the provider is late
    assert embedder.step(deadline=0.0) == 1
    assert space.provider.asked == []
    assert embedder.step() == 0


def test_a_revision_is_embedded_and_a_restart_knows_it(space):
    message, cursor = space.say("first words")
    space.embed()
    space.revise(message, "other words")
    assert space.embedded() == [], "the old text's embedding is no embedding of this message any more"
    space.embed()
    assert space.embedded() == [cursor]
    space.embed()
    assert space.provider.asked == [["first words"], ["other words"]]


@pytest.mark.parametrize("ending", ["forget", "erase", "destroy later"])
def test_the_row_of_what_ended_is_deleted(space, ending):
    _, stays = space.accepted("stays")
    if ending == "erase":
        subject, _ = space.say("goes")
    else:
        subject, _ = space.accepted("goes")
    embedder = space.embed()
    cache = embedder.embeddings.cache
    assert len(cache.cursors()) == 2
    if ending == "erase":
        space.erase(subject)
    elif ending == "forget":
        space.forget(subject)
    else:
        space.move(subject, Operation.TOMBSTONE)  # its key is destroyed later, its row is nobody's already
    assert space.embedded() == [stays]
    embedder.step()
    assert cache.cursors().tolist() == [stays]


def test_what_may_come_back_is_kept(space):
    subject, cursor = space.accepted("disputed")
    embedder = space.embed()
    space.move(subject, Operation.DISPUTE)
    assert space.embedded() == []
    embedder.step()
    space.move(subject, Operation.RESOLVE_DISPUTE)
    assert space.embedded() == [cursor]
    assert embedder.progress() == Progress(1, 0, 0)


def test_what_is_forgotten_while_it_is_embedded_leaves_no_row(space):
    subject, _ = space.accepted("goes")

    def forget(texts):
        space.forget(subject)

    space.provider.failing = forget
    embedder = space.embed()
    assert embedder.embeddings.cache.cursors().tolist() == []


def test_a_provider_that_is_down_is_left_alone_for_a_while_and_tried_again(space):
    space.accepted("one")
    space.provider.failing = down
    embedder = space.embedder()
    assert embedder.step() == 0
    assert embedder.progress() == Progress(embedded=0, wanted=1, failed=0)
    assert embedder.step() == 0
    assert len(space.provider.asked) == 1, "not before its time"
    for attempt in (2, 3):
        space.clock.ahead += 100_000
        embedder._paused_until = 0.0
        embedder.step()
        assert len(space.provider.asked) == attempt
    space.clock.ahead += 10_000_000
    assert embedder.progress() == Progress(embedded=0, wanted=0, failed=1)
    assert embedder.step() == 0
    assert len(space.provider.asked) == 3, "it rests"
    space.provider.failing = None
    embedder.retry()
    assert embedder.step() == 0
    assert embedder.progress() == Progress(1, 0, 0)


def test_while_a_provider_is_left_alone_others_wait_without_losing_an_attempt(space):
    space.accepted("one")
    space.provider.failing = down
    embedder = space.embedder()
    embedder.step()
    space.accepted("two")
    assert embedder.step() == 0, "nothing can be embedded now: who goes on while something is left does not spin"
    assert embedder.progress() == Progress(embedded=0, wanted=2, failed=0)
    assert len(space.provider.asked) == 1


def test_a_restart_tries_again_what_rested(space):
    space.accepted("bad word")
    space.provider.failing = refusing("bad")
    embedder = space.embedder()
    for _ in range(3):
        embedder.step()
        space.clock.ahead += 1_000_000
    assert embedder.progress().failed == 1
    assert space.embedder().progress() == Progress(0, 1, 0)


def test_one_text_that_is_refused_keeps_no_other_back(space):
    cursors = [space.accepted(f"good {number}")[1] for number in range(5)]
    space.accepted("bad")
    cursors += [space.accepted(f"fine {number}")[1] for number in range(5)]
    space.provider.failing = refusing("bad")
    embedder = space.embedder()
    for _ in range(30):
        embedder.step()
        space.clock.ahead += 1
    assert space.embedded() == cursors


def test_a_revision_of_what_rests_is_tried_at_once(space):
    message, cursor = space.say("bad")
    space.provider.failing = refusing("bad")
    embedder = space.embedder()
    for _ in range(3):
        embedder.step()
        space.clock.ahead += 1_000_000
    assert embedder.progress().failed == 1
    space.revise(message, "good")
    embedder.step()
    assert space.embedded() == [cursor]


def test_half_of_all_calls_failing_loses_nothing(space):
    cursors = [space.accepted(f"text {number}")[1] for number in range(40)]
    calls = iter(range(1_000))
    space.provider.failing = lambda texts: down(texts) if next(calls) % 2 else None
    embedder = space.embedder()
    for _ in range(60):
        embedder.step()
        space.clock.ahead += 1_000_000
        embedder._paused_until = 0.0
    assert space.embedded() == cursors


def test_vectors_of_another_dimension_are_refused(space):
    space.accepted("one")
    space.provider.returned_dimension = 32
    embedder = space.embedder()
    embedder.step()
    assert space.embedded() == []
    assert embedder.progress().wanted == 1


def test_the_environment_is_a_cache(space):
    cursors = [space.accepted(text)[1] for text in ("one", "two")]
    embedder = space.embed()
    digest = embedder.embeddings.digest(space.standing())
    shutil.rmtree(space.path / layout.PROJECTIONS / "vector")
    assert space.embedded() == []
    while embedder.step():
        pass
    assert space.embedded() == cursors
    assert embedder.embeddings.digest(space.standing()) == digest


def test_two_stores_agree_on_the_digest_only_over_equal_texts(space):
    space.accepted("one")
    before = space.embed().embeddings.digest(space.standing())
    space.accepted("two")
    assert space.embed().embeddings.digest(space.standing()) != before
    other = space.embed(Wordly("other")).embeddings.digest(space.standing())
    assert other != space.embeddings().digest(space.standing())


def test_a_broken_environment_is_made_anew(space):
    _, cursor = space.accepted("one")
    embedder = space.embed()
    path = space.folders.path / embedder.embeddings.cache.name / "data.mdb"
    path.write_bytes(b"\xff" * path.stat().st_size)
    assert space.embedded() == []
    embedder.step()
    assert space.embedded() == [cursor]


def test_at_rest_the_environment_is_marked_clean(space):
    space.accepted("one")
    embedder = space.embed()
    mark = (space.folders.path / embedder.embeddings.cache.name / "MARK").read_text()
    assert '"clean":true' in mark


def test_everything_is_private(space):
    space.accepted("one")
    space.embed()
    place = space.path / layout.PROJECTIONS / "vector"
    modes = {path.stat().st_mode & 0o777 for path in [place, *place.rglob("*")] if path.is_dir()}
    files = {path.stat().st_mode & 0o777 for path in place.rglob("*") if path.is_file()}
    assert (modes, files) == ({0o700}, {0o600})


def test_a_provider_that_failed_is_asked_for_many_again_and_only_then_for_each_alone(space):
    for text in ("one", "two"):
        space.accepted(text)
    space.provider.failing = down
    embedder = space.embedder()
    for _ in range(4):
        embedder.step()
        space.clock.ahead += 1_000_000
        embedder._paused_until = 0.0
    assert space.provider.asked == [["two", "one"], ["two", "one"], ["two"], ["one"]]


def test_two_embedders_at_once_do_no_harm(space):
    cursors = [space.accepted(f"text {number}")[1] for number in range(150)]
    failed = []

    def run():
        try:
            space.embed()
        except Exception as error:  # noqa: BLE001 - shown below
            failed.append(error)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert space.embedded() == cursors


def test_nobody_waits_for_a_provider_and_nothing_is_embedded_twice_at_once(space):
    _, cursor = space.accepted("one")
    embedder = space.embedder()
    seen = []

    def look(texts):
        seen.append((embedder.step(), embedder.progress()))  # as another thread would, while the provider works
        assert space.folders.current() is None, "what is under way is not complete"

    space.provider.failing = look
    assert embedder.step() == 0
    assert seen == [(0, Progress(embedded=0, wanted=1, failed=0))]
    assert space.provider.asked == [["one"]]
    assert space.embedded() == [cursor]
    assert space.folders.current() is not None


def test_what_raised_is_not_under_way_for_ever(space):
    def break_down(texts):
        raise RuntimeError("a bug")

    space.accepted("one")
    space.provider.failing = break_down
    embedder = space.embedder()
    with pytest.raises(RuntimeError):
        embedder.step()
    space.provider.failing = None
    embedder.step()
    assert embedder.progress() == Progress(1, 0, 0)


WRITER = """
from pathlib import Path
from projections.vector.cache import Cache, Changes
from projections.vector.folders import Folders
from journal.scope import Scope
cache = Cache(Folders(Path(sys.argv[1]), Scope.of("tenant:test", "workspace:test")), sys.argv[2])
say("ready")
wait()
for number in range(20):
    cache.change(Changes(put={10_000 + number: b"x"}))
say("done")
"""


def test_another_process_may_write_at_the_same_time(space):
    cursors = [space.accepted(f"text {number}")[1] for number in range(20)]
    embedder = space.embedder()
    cache = embedder.embeddings.cache
    with Process(WRITER, space.path / layout.PROJECTIONS, cache.name) as writer:
        assert writer.hear() == "ready"
        writer.tell()
        embedder.step()
        assert writer.hear() == "done"
    assert set(cursors) <= set(cache.cursors().tolist())
    embedder.step()
    assert cache.cursors().tolist() == cursors, "what is no subject's is deleted"


def test_a_writer_that_is_killed_costs_no_row(space):
    cursors = [space.accepted(f"text {number}")[1] for number in range(20)]
    embedder = space.embed()
    cache = embedder.embeddings.cache
    with Process(WRITER.replace("range(20)", "range(10**6)"), space.path / layout.PROJECTIONS, cache.name) as writer:
        writer.hear()
        writer.tell()
        while len(cache.cursors()) == len(cursors):
            pass
        writer.kill()
    assert space.embedded() == cursors
    embedder.step()
    assert cache.cursors().tolist() == cursors


def test_a_failure_says_no_content():
    assert "secret" not in str(EmbeddingFailed("no answer", retryable=True))


def test_an_embedding_that_comes_late_does_not_take_the_place_of_a_newer_texts(space):
    message, cursor = space.say("first words")
    begun, go_on = threading.Event(), threading.Event()
    late = space.embedder(Wordly())

    def slow(texts):
        begun.set()
        assert go_on.wait(10)

    late._provider.failing = slow
    aside = threading.Thread(target=late.step)
    aside.start()
    assert begun.wait(10)
    space.revise(message, "other words")
    space.embed()
    assert space.embedded() == [cursor]
    go_on.set()
    aside.join()
    assert space.embedded() == [cursor], "the newer text's embedding stands"
    assert late.step() == 0
    assert late.progress() == Progress(embedded=1, wanted=0, failed=0)
