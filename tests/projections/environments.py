"""What the tests of environments share."""

from __future__ import annotations

import json

from projections import marks

NAMES = (b"meta", b"table")

OTHER = """
from pathlib import Path
from projections.environment import attach
env = attach(Path(sys.argv[1]), (b"meta", b"table"), None)
say("open")
while (word := wait()) != "close":
    if word == "claim":
        say(env.claim(0.0))
    elif word == "unclaim":
        env.unclaim(); say("done")
    elif word == "put":
        with env.writing() as txn:
            txn.put(b"key", b"value", db=env.tables[b"table"])
        say("done")
env.release()
say("closed")
"""


def put(opened, key=b"key", value=b"value"):
    assert opened.claim(0.0)
    try:
        with opened.writing() as txn:
            txn.put(key, value, db=opened.tables[b"table"])
    finally:
        opened.unclaim()


def got(opened, key=b"key"):
    with opened.reading() as txn:
        value = txn.get(key, db=opened.tables[b"table"])
        return None if value is None else bytes(value)


def mark(directory):
    return json.loads((directory / marks.NAME).read_text())


def rewrite_mark(directory, **changes):
    (directory / marks.NAME).write_text(json.dumps({**mark(directory), **changes}))
