"""Documents: fields, weights, and the record's own mapping."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.lexical.documents import Document, Weighed, Weigher, record_document
from projections.lexical.identifiers import STOP_MARK
from projections.lexical.keyed import TokenKey
from projections.lexical.profile import RECORD_FIELDS, Field
from projections.lexical.tokens import document_terms
from tests.projections.lexical.indexes import impacts_by_token, payload_of

KEY = TokenKey(bytes(range(32)))
WEIGHER = Weigher(KEY, RECORD_FIELDS)


def plain_impacts(document):
    """BM25F as the textbook has it, one term at a time."""
    weighted: dict[str, float] = {}
    for field in RECORD_FIELDS:
        terms = [term for name, text in document.fields if name == field.name for term in document_terms(text)]
        length = len([term for term in terms if not term.startswith(STOP_MARK)])
        b = field.length_thousandths / 1000
        norm = 1 - b + b * length / field.pivot_terms
        for term, count in Counter(terms).items():
            weighted[term] = weighted.get(term, 0) + field.weight_thousandths / 1000 * count / norm
    return {KEY.tokens([term])[0]: max(1, round(255 * weight / (0.9 + weight))) for term, weight in weighted.items()}


names = st.sampled_from([field.name for field in RECORD_FIELDS])
texts = st.lists(st.sampled_from(["cache", "알림을", "the", "src/main.py", "deploy 서버 배포"]), max_size=30).map(
    " ".join
)


@given(st.lists(st.tuples(names, texts), max_size=6))
def test_impacts_are_bm25f(fields):
    document = Document(tuple(fields))
    found, expected = impacts_by_token(WEIGHER.weigh(document)), plain_impacts(document)
    assert found.keys() == expected.keys()
    assert all(abs(found[token] - expected[token]) <= 1 for token in expected)  # the last bit of a float may differ


@given(st.lists(st.tuples(names, texts), max_size=6), st.randoms(use_true_random=False))
def test_the_order_of_fields_does_not_matter(fields, random):
    shuffled = random.sample(fields, len(fields))
    assert WEIGHER.weigh(Document(tuple(fields))) == WEIGHER.weigh(Document(tuple(shuffled)))


def test_tokens_ascend_and_are_distinct():
    weighed = WEIGHER.weigh(Document((("primary", "one two three two 알림을 보냈다"), ("context", "one"))))
    tokens = weighed.token_list()
    assert tokens == sorted(set(tokens))
    assert len(weighed.impacts) == len(tokens)


def test_a_forward_entry_is_the_document():
    weighed = WEIGHER.weigh(Document((("primary", "one two three"),)))
    assert Weighed.from_forward(weighed.forward) == weighed
    assert Weighed.from_forward(b"") == Weighed(b"", b"")


def test_stop_words_have_no_part_in_the_length():
    short = WEIGHER.weigh(Document((("primary", "cache"),)))
    padded = WEIGHER.weigh(Document((("primary", "the " * 5_000 + "cache"),)))
    token = KEY.tokens(["cach"])[0]
    assert impacts_by_token(short)[token] == impacts_by_token(padded)[token]


def test_a_longer_text_is_held_against_it_and_a_longer_citation_is_not():
    token = KEY.tokens(["cach"])[0]

    def impact(field, text):
        return impacts_by_token(WEIGHER.weigh(Document(((field, text),))))[token]

    filler = " ".join(f"w{number}" for number in range(2_000))
    assert impact("context", "cache") > impact("context", f"cache {filler}")
    assert impact("citations", "cache") == impact("citations", f"cache {filler}")


def test_fields_weigh_in_the_order_of_the_profile():
    token = KEY.tokens(["cach"])[0]
    weighed = [impacts_by_token(WEIGHER.weigh(Document(((field.name, "cache"),))))[token] for field in RECORD_FIELDS]
    assert weighed == sorted(weighed, reverse=True)
    assert len(set(weighed)) == len(weighed)


def test_an_unknown_field_is_refused():
    with pytest.raises(ValueError, match="field"):
        WEIGHER.weigh(Document((("title", "cache"),)))


def test_another_table_of_fields_serves_other_documents():
    fields = (Field("text", 1_000, 300, 20), Field("speaker", 500, 0, 20))
    weighed = Weigher(KEY, fields).weigh(Document((("text", "cache"), ("speaker", "Ada"))))
    assert set(weighed.token_list()) == set(KEY.tokens(["cach", "ada"]))


def test_a_record_gives_its_components_by_role_and_its_citations():
    payload = payload_of("first", kind="context", others=[("decision", "second")], source="source:a", value="b#1")
    assert record_document(payload) == Document(
        (("primary", "first"), ("decision", "second"), ("citations", "source:a"), ("citations", "b#1")),
        main="first", source="purpose:notes\0source:a",
    )  # fmt: skip


def test_no_bigram_joins_two_texts():
    apart = WEIGHER.weigh(Document((("context", "대한민국"), ("context", "수도"))))
    assert KEY.tokens(["국수"])[0] not in apart.token_list()


def test_a_document_that_arrives_is_weighed_and_stands_as_each_by_itself():
    fields = (("primary", "We met on Monday?"), ("context", "Ada"), ("context", "a longer text about it all"))
    document = Document(fields, main="We met on Monday?", source="talk", labels=("Ada",))
    assert WEIGHER.arriving(document, 7) == (WEIGHER.weigh(document), WEIGHER.standing(document, 7))
    assert WEIGHER.standing(document, 7).label
