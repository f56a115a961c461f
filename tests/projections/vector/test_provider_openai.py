"""An endpoint's answers: the right one counts, every wrong one fails whole, and no text or key shows in a failure."""

import math
import threading
import traceback

import numpy as np
import pytest
from msgspec.structs import replace

from journal import limits
from projections.vector.providers import make
from projections.vector.providers.openai import OpenAI
from projections.vector.providers.port import EmbeddingFailed
from projections.vector.providers.settings import Settings
from tests.projections.vector.endpoints import DIMENSION, changed, endpoint, raw, status, vector

KEY = "planted-key-5f2c"
SECRET = "a text that nobody should read in a log"


@pytest.fixture
def served():
    with endpoint() as started:
        yield started


def settings_of(served, **changes):
    return replace(
        Settings(provider="openai", endpoint=served.address, model="m", dimension=DIMENSION, api_key_env="KEY_OF_TEST"),
        **changes,
    )


def provider_of(served, pauses=None, **changes):
    kept = [] if pauses is None else pauses
    return OpenAI(settings_of(served, **changes), {"KEY_OF_TEST": KEY}, pause=kept.append)


def failure(provider, texts=(SECRET, "zwei")):
    with pytest.raises(EmbeddingFailed) as caught:
        provider.documents(list(texts))
    told = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    assert SECRET not in told
    assert KEY not in told
    return caught.value


def unit(text):
    row = np.array(vector(text))
    return row / np.linalg.norm(row)


def test_every_text_has_its_vector_of_length_one(served):
    texts = ["가나다", "b", "", "\ud800\0x"]
    made = provider_of(served).documents(texts)
    assert made.dtype == np.float32
    assert made.shape == (4, DIMENSION)
    assert np.allclose(made, [unit("가나다"), unit("b"), unit(" "), unit("x")], atol=1e-6)
    request = served.asked[0]
    assert request.path == "/v1/embeddings"
    assert request.body == {"model": "m", "input": ["가나다", "b", " ", "x"], "encoding_format": "float"}
    assert request.headers["Authorization"] == f"Bearer {KEY}"


def test_questions_are_sent_alike_and_without_a_key_none_is_sent(served):
    provider = provider_of(served, api_key_env=None)
    assert np.array_equal(provider.queries(["b"]), provider.documents(["b"]))
    assert "Authorization" not in served.asked[0].headers


def test_no_text_needs_no_request(served):
    assert provider_of(served).documents([]).shape == (0, DIMENSION)
    assert served.asked == []


def test_batches_keep_both_bounds_and_the_order(served):
    texts = ["a", "bb", "ccc", "dddddddddddd", "e", "f", "g"]
    made = provider_of(served, batch_texts=3, batch_characters=6).documents(texts)
    assert [request.body["input"] for request in served.asked] == [
        ["a", "bb", "ccc"],
        ["dddddddddddd"],
        ["e", "f", "g"],
    ]
    assert np.allclose(made, [unit(text) for text in texts], atol=1e-6)


def test_of_a_long_text_the_first_part_is_sent(served):
    provider_of(served).documents(["x" * (limits.EMBEDDING_ENDPOINT_CHARACTERS + 1)])
    assert served.asked[0].body["input"] == ["x" * limits.EMBEDDING_ENDPOINT_CHARACTERS]


def test_rows_in_another_order_find_their_texts(served):
    served.replies = [changed(lambda rows: rows.reverse())]
    assert np.allclose(provider_of(served).documents(["a", "bb"]), [unit("a"), unit("bb")], atol=1e-6)


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (changed(lambda rows: rows[1]["embedding"].pop()), "3 numbers"),
        (changed(lambda rows: [row["embedding"].append(1.0) for row in rows]), "5 numbers"),
        (changed(lambda rows: rows.pop()), "1 vectors"),
        (changed(lambda rows: rows.append(rows[0])), "3 vectors"),
        (changed(lambda rows: rows[1].update(index=0)), "whose"),
        (changed(lambda rows: rows[1].update(index=2)), "whose"),
        (changed(lambda rows: rows[1].update(index=-1)), "whose"),
        (changed(lambda rows: rows[1].update(index="1")), "no list"),
        (changed(lambda rows: rows[1].pop("index")), "no list"),
        (changed(lambda rows: rows[1].update(embedding=[math.nan] * 4)), "no list"),
        (changed(lambda rows: rows[1].update(embedding=[math.inf] * 4)), "no list"),
        (changed(lambda rows: rows[1].update(embedding=["1", 2, 3, 4])), "no list"),
        (changed(lambda rows: rows[1].update(embedding=[None, 2, 3, 4])), "no list"),
        (changed(lambda rows: rows[1].update(embedding="AACAPwAAgD8AAIA/AACAPw==")), "no list"),
        (changed(lambda rows: rows[1].update(embedding=[0, 0, 0, 0])), "no length"),
        (raw(b'{"data": [{"index": 0, "embedding": [1e999, 1, 1, 1]}]}'), "no list"),
        (raw(b"<html>no</html>"), "no list"),
        (raw(b"[" * 50_000), "no list"),
        (raw(b"\xff\xfe"), "no list"),
        (raw(b""), "no list"),
        (raw(b" " * (limits.EMBEDDING_ANSWER_BYTES + 2 * DIMENSION * limits.EMBEDDING_NUMBER_BYTES + 1)), "larger"),
        (status(401), "the key is refused"),
        (status(404), "no such address or model"),
    ],
)
def test_a_wrong_answer_fails_at_once(served, reply, told):
    served.replies = [reply]
    failed = failure(provider_of(served))
    assert told in str(failed)
    assert not failed.retryable
    assert len(served.asked) == 1


def takes(texts, characters):
    """Answer right what is within both bounds, and refuse the rest as too long."""

    def reply(handler, request):
        given = request.body["input"]
        fits = len(given) <= texts and max(map(len, given)) <= characters
        (changed(lambda _: None) if fits else status(400))(handler, request)

    return reply


def test_of_what_a_server_refuses_for_its_length_less_is_sent(served):
    served.replies = [takes(2, 1000)] * 30
    made = provider_of(served).documents(["x" * 8000, "b", "c" * 1001, "d", "e"])
    assert np.allclose(made, [unit(text) for text in ("x" * 1000, "b", "c" * 500, "d", "e")], atol=1e-6)


def test_what_is_refused_to_the_end_ends_soon(served):
    served.replies = [status(400)] * 1000
    failed = failure(provider_of(served), [SECRET * 1000] * limits.EMBEDDING_BATCH_TEXTS)
    assert "400" in str(failed)
    assert not failed.retryable
    assert len(served.asked) < 20
    assert len(served.asked[-1].body["input"][0]) <= limits.EMBEDDING_ENDPOINT_LEAST_CHARACTERS


def test_numbers_of_any_size_come_to_length_one(served):
    served.replies = [changed(lambda rows: rows[0].update(embedding=[1e300, 1e300, 0, 0]))]
    assert np.allclose(provider_of(served).documents(["a"]), [[0.5**0.5, 0.5**0.5, 0, 0]])
    served.replies = [changed(lambda rows: rows[0].update(embedding=[1e-300, 0, 0, 0]))]
    assert provider_of(served).documents(["a"]).tolist() == [[1, 0, 0, 0]]


def test_a_redirect_is_not_followed(served):
    with endpoint() as elsewhere:
        served.replies = [status(307, Location=elsewhere.address + "/embeddings")]
        failed = failure(provider_of(served))
        assert "redirects are not followed" in str(failed)
        assert not failed.retryable
        assert elsewhere.asked == []


def broken_off(handler, request):
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"data": ')
    handler.close_connection = True


@pytest.mark.parametrize("reply", [status(429), status(500), status(503), status(408), broken_off])
def test_a_failed_attempt_is_made_again(served, reply):
    served.replies = [reply, reply]
    pauses: list[float] = []
    made = provider_of(served, pauses).documents(["a"])
    assert np.allclose(made, [unit("a")], atol=1e-6)
    assert len(served.asked) == 3
    assert len(pauses) == 2
    assert 0 <= pauses[0] <= limits.EMBEDDING_BACKOFF_SECONDS
    assert 0 <= pauses[1] <= 2 * limits.EMBEDDING_BACKOFF_SECONDS


def test_attempts_end_and_the_call_may_be_made_later(served):
    served.replies = [status(500)] * 20
    failed = failure(provider_of(served))
    assert failed.retryable
    assert "500" in str(failed)
    assert len(served.asked) == limits.EMBEDDING_ATTEMPTS


def test_one_failed_batch_fails_the_call(served):
    served.replies = [changed(lambda _: None), status(401)]
    assert not failure(provider_of(served, batch_texts=1)).retryable
    assert len(served.asked) == 2


def test_pauses_are_random_and_double(monkeypatch, served):
    monkeypatch.setattr("projections.vector.providers.openai.random.uniform", lambda least, most: (least, most)[1])
    served.replies = [status(500)] * 20
    pauses: list[float] = []
    failure(provider_of(served, pauses))
    first = limits.EMBEDDING_BACKOFF_SECONDS
    assert pauses == [first * 2**step for step in range(limits.EMBEDDING_ATTEMPTS - 1)]


@pytest.mark.parametrize("asked", ["7", " 7 "])
def test_retry_after_is_kept(served, asked):
    served.replies = [status(429, Retry_After=asked)]
    pauses: list[float] = []
    provider_of(served, pauses).documents(["a"])
    assert pauses == [7]


def test_retry_after_may_be_a_date(monkeypatch, served):
    monkeypatch.setattr("projections.vector.providers.openai.time.time", lambda: 1_800_000_000.0)
    served.replies = [status(503, Retry_After="Fri, 15 Jan 2027 08:00:09 GMT")]
    pauses: list[float] = []
    provider_of(served, pauses).documents(["a"])
    assert pauses == [9]


@pytest.mark.parametrize("asked", ["", "soon", "-5", "\u00b2", "Fri, 15 Jan 1999 08:00:09 GMT"])
def test_what_retry_after_says_wrongly_counts_for_nothing(served, asked):
    served.replies = [status(429, Retry_After=asked)]
    pauses: list[float] = []
    provider_of(served, pauses).documents(["a"])
    assert pauses[0] <= limits.EMBEDDING_BACKOFF_SECONDS


def test_nobody_waits_past_the_deadline(served):
    served.replies = [status(429, Retry_After=str(limits.EMBEDDING_DOCUMENTS_DEADLINE_SECONDS + 1))]
    pauses: list[float] = []
    assert failure(provider_of(served, pauses)).retryable
    assert pauses == []
    assert len(served.asked) == 1


@pytest.mark.parametrize("stage", ["headers", "body"])
def test_an_answer_that_trickles_is_ended(monkeypatch, served, stage):
    monkeypatch.setattr(limits, "EMBEDDING_QUERIES_DEADLINE_SECONDS", 0.3)

    def trickle(handler, request):
        if stage == "body":
            handler.send_response(200)
            handler.end_headers()
        else:
            handler.wfile.write(b"HTTP/1.0 200 OK\r\nX: ")
        while not served.ended.wait(0.02):
            handler.wfile.write(b" ")

    served.replies = [trickle]
    with pytest.raises(EmbeddingFailed) as caught:
        provider_of(served).queries(["a"])
    assert caught.value.retryable


def test_no_answer_at_all_is_a_time_out(monkeypatch, served):
    monkeypatch.setattr(limits, "EMBEDDING_ATTEMPT_SECONDS", 0.1)
    served.replies = [lambda handler, request: bool(served.ended.wait(5))]
    pauses: list[float] = []
    made = provider_of(served, pauses).documents(["a"])
    assert np.allclose(made, [unit("a")], atol=1e-6)
    assert len(pauses) == 1


def test_nobody_listening_may_be_tried_later():
    with endpoint() as gone:
        settings = settings_of(gone)
    assert failure(OpenAI(settings, {"KEY_OF_TEST": KEY}, pause=lambda _: None)).retryable


def test_closing_ends_a_pause(served):
    served.replies = [status(429, Retry_After="60")]
    provider = OpenAI(settings_of(served), {"KEY_OF_TEST": KEY})
    failures = []

    def ask():
        try:
            provider.documents(["a"])
        except EmbeddingFailed as error:
            failures.append(error.retryable)

    thread = threading.Thread(target=ask)
    thread.start()
    provider.close()
    thread.join(30)
    assert failures == [True]


def test_calls_from_many_threads_keep_apart(served):
    provider = provider_of(served, batch_texts=2)
    made = {}

    def ask(letter):
        made[letter] = provider.documents([letter * n for n in range(1, 8)])

    threads = [threading.Thread(target=ask, args=(letter,)) for letter in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for letter in "abcd":
        assert np.allclose(made[letter], [unit(letter * n) for n in range(1, 8)], atol=1e-6)


def test_what_a_vector_is_bound_to(served):
    digests = [
        provider_of(served).digest,
        provider_of(served, model="n").digest,
        provider_of(served, dimension=5).digest,
        provider_of(served, endpoint="https://example.com/v1").digest,
    ]
    assert len(set(digests)) == 4
    assert all(len(digest) == 32 for digest in digests)
    assert provider_of(served, batch_texts=1, api_key_env=None).digest == digests[0]


def test_what_leaves_the_machine(served):
    assert not provider_of(served).leaves_machine
    assert not provider_of(served, endpoint="http://[::1]:8080/v1").leaves_machine
    assert not provider_of(served, endpoint="https://localhost/v1").leaves_machine
    assert provider_of(served, endpoint="https://127.0.0.1.example.com/v1").leaves_machine
    assert provider_of(served, endpoint="https://10.0.0.1/v1").leaves_machine


@pytest.mark.parametrize("key", [None, "", "  ", "a b", "a\nb", "키"])
def test_a_key_that_cannot_be_one_is_refused_unseen(served, key):
    with pytest.raises(EmbeddingFailed, match="KEY_OF_TEST") as caught:
        make(settings_of(served), {} if key is None else {"KEY_OF_TEST": key})
    assert key is None or not key.strip() or key not in str(caught.value)


def test_the_key_shows_nowhere(served):
    provider = make(settings_of(served), {"KEY_OF_TEST": KEY + "\n"})
    assert provider is not None
    assert KEY not in repr(provider) + repr(vars(provider)) + repr(settings_of(served))
    provider.documents(["a"])
    assert served.asked[0].headers["Authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("verb", ["documents", "queries"])
def test_whoever_waits_is_let_go_when_the_provider_is_closed(served, monkeypatch, verb):
    for name in ("EMBEDDING_QUERIES_DEADLINE_SECONDS", "EMBEDDING_ATTEMPT_SECONDS"):
        monkeypatch.setattr(limits, name, 600)
    served.replies = [lambda handler, request: served.ended.wait()]
    provider = provider_of(served)
    failures = []

    def ask():
        try:
            getattr(provider, verb)([SECRET])
        except EmbeddingFailed as failed:
            failures.append(failed)

    waiting = threading.Thread(target=ask, daemon=True)
    waiting.start()
    while not served.asked:
        waiting.join(0.01)
    provider.close()
    waiting.join(30)
    assert [failed.retryable for failed in failures] == [True]
    with pytest.raises(EmbeddingFailed):
        provider.queries(["later"])
    assert len(served.asked) == 1
