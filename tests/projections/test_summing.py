"""What a generation's rows add up to, whatever is done to them."""

from __future__ import annotations

from contextlib import closing

import lmdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.environment import Unusable
from projections.port import META
from projections.summing import NOTHING, Summed, stated_in, walked

TABLE = b"table"
_KEYS = st.sampled_from([b"a", b"b", b"c", b"d"])
_VALUES = st.binary(max_size=3)
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), _KEYS, _VALUES), st.tuples(st.just("put once"), _KEYS, _VALUES),
        st.tuples(st.just("append"), _KEYS, _VALUES), st.tuples(st.just("delete"), _KEYS, st.just(b"")),
        st.tuples(st.just("commit"), st.just(b""), st.just(b"")),
    ),
    max_size=20,
)  # fmt: skip


@pytest.fixture
def env(tmp_path):
    with closing(lmdb.open(str(tmp_path), max_dbs=2, lib_version=0)) as made:
        yield made


def tables_of(env):
    return {name: env.open_db(name) for name in (META, TABLE)}


def do(summed, step, key, value, db):
    """Do a step; return what is said of it."""
    match step:
        case "put":
            return summed.put(key, value, db=db)
        case "put once":
            return summed.put(key, value, overwrite=False, db=db)
        case "append":
            try:
                return summed.put(key, value, append=True, db=db)
            except Unusable:
                return False
    return summed.delete(key, db=db)


def done_by_hand(rows, step, key, value):
    is_there = key in rows
    if step == "delete":
        return rows.pop(key, None) is not None
    if (step == "put once" and is_there) or (step == "append" and rows and key <= max(rows)):
        return False
    rows[key] = value
    return True


@given(steps=_STEPS)
def test_the_sums_are_those_of_the_rows_after_any_steps(steps, tmp_path_factory):
    with closing(lmdb.open(str(tmp_path_factory.mktemp("env")), max_dbs=2, sync=False, lib_version=0)) as env:
        tables, left, new = tables_of(env), list(steps), True
        rows: dict[bytes, bytes] = {}
        while True:
            with env.begin(write=True) as txn:
                summed = Summed(txn, tables, new=new)
                new = False
                while left and (step := left.pop(0))[0] != "commit":
                    what, key, value = step
                    assert do(summed, what, key, value, tables[TABLE]) == done_by_hand(rows, what, key, value), step
                summed.settle()
            with env.begin(buffers=True) as txn:
                stated = stated_in(txn, tables[META])
                found = walked(txn, tables)
                assert {bytes(key): bytes(value) for key, value in txn.cursor(db=tables[TABLE])} == rows
            assert {name: stated.get(name, NOTHING) for name in found} == found
            assert found["table"][0] == len(rows)
            if not left:
                return


@pytest.mark.parametrize(
    "harm",
    [
        lambda txn, table: txn.put(b"b", b"3", db=table),
        lambda txn, table: txn.put(b"c", b"3", db=table),
        lambda txn, table: txn.delete(b"b", db=table),
        lambda txn, table: txn.put(b"a", b"2", db=table) and txn.put(b"b", b"1", db=table),
    ],
)
def test_rows_that_nobody_wrote_add_up_to_something_else(env, harm):
    tables = tables_of(env)
    with env.begin(write=True) as txn:
        summed = Summed(txn, tables, new=True)
        for key, value in ((b"a", b"1"), (b"b", b"2")):
            summed.put(key, value, db=tables[TABLE])
        summed.settle()
    with env.begin(write=True) as txn:
        harm(txn, tables[TABLE])
        assert walked(txn, tables)["table"] != stated_in(txn, tables[META])["table"]


@pytest.mark.parametrize("raw", [None, b"", b"\x90", b"\x81\xa1a\x90", b"no sums"])
def test_a_generation_without_sums_is_not_written_on(env, raw):
    tables = tables_of(env)
    with env.begin(write=True) as txn:
        if raw is not None:
            txn.put(b"sums", raw, db=tables[META])
        with pytest.raises(Unusable):
            Summed(txn, tables)
