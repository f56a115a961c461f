"""Rows of projections that are changed under those who have their files mapped."""

from __future__ import annotations

from projections.pagewalk import in_force


def row_of(projections, name, table):
    """Return the key and value of a row, which stand side by side on its page."""
    with projections.snapshot() as snapshot:
        state = snapshot._states[name]
        key, value = next(iter(state.txn.cursor(db=state.tables[table])))
        return bytes(key) + bytes(value)


def changed(path, name, row, at):
    """Change a byte of a row of a generation in force, under those who have its file mapped."""
    (data,) = (path / each / "data.mdb" for each in in_force(path) if each.split("/")[1] == name)
    place = data.read_bytes().rindex(row) + at % len(row)
    with data.open("r+b") as file:
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ 1]))
