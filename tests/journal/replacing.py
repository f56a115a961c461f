"""A process that replaces a store's root key, and may die of it: its words are the store and the key's file."""

from __future__ import annotations

import sys
from pathlib import Path

from journal.log import Journal
from journal.rootchange import plan_for, root_key_in_force
from journal.rootkey import RootKeySource
from tests.journal.stores import ACTOR


def main() -> None:
    """Replace it."""
    path, source = Path(sys.argv[1]), RootKeySource("file", (sys.argv[2],))
    journal = Journal.open(path, root_key_in_force(path, source))
    journal.replace_root_key(plan_for(source, None), ACTOR)
    journal.close()


if __name__ == "__main__":
    main()
