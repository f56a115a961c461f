"""Plain sentences, which count towards every scope's centre, so that what stands in a small one can be told apart.

Models put any two texts near each other, so similarities are taken from the mean of what is in force (``centring``).
The mean of one record is the record: nothing of it would be left, and of two or three too little to find them by.
Sentences about nothing in particular, embedded by the same model, say where the middle of its vectors is. They weigh as
so many vectors do, and so ever less in a scope that grows.

Their mean is made once and kept beside a scope's embeddings, for a provider elsewhere need not give the same twice:

    <store>/projections/vector/<scope tag>/<folder of the model>/PLAIN
        digest of the sentences 32 | model's digest 32 | float64 le a number | BLAKE3 of all that, 32

Nothing in it is secret. What cannot be used is made anew.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from journal.checkpointfiles import place_file, read_file
from journal.errors import EngramError
from projections.vector.centring import mean_of, unit
from projections.vector.embedding import packable
from projections.vector.providers.port import EmbeddingFailed, Provider

FILE: Final = "PLAIN"
SENTENCES: Final = (
    "The weather was fine yesterday.",
    "Please send me the report by Friday.",
    "He bought a new phone last week.",
    "The train was late again.",
    "I like to cook on weekends.",
    "The server returned an error.",
    "They discussed the budget for next year.",
    "Water boils at one hundred degrees.",
    "She plays the piano in the evening.",
    "The contract was signed in March.",
    "We moved the file to another folder.",
    "The price of oil has risen.",
    "어제는 날씨가 좋았다.",
    "회의 자료를 금요일까지 준비해 주세요.",
    "그는 지난달에 자전거를 샀다.",
    "버스가 또 늦게 왔다.",
    "나는 아침마다 운동을 한다.",
    "프로그램이 갑자기 멈췄다.",
    "내년 계획을 함께 의논했다.",
    "얼음은 영 도에서 녹는다.",
    "그녀는 저녁에 책을 읽는다.",
    "새 가게가 봄에 문을 열었다.",
    "사진을 다른 곳에 저장했다.",
    "쌀값이 조금 내렸다.",
    "昨日は雨が降った。",
    "会議は午後三時に始まる。",
    "我昨天买了一本书。",
    "这条路很长。",
    "El tren llegó tarde.",
    "Der Vertrag ist unterschrieben.",
    "Le magasin ferme à six heures.",
    "Мы переехали в новый город.",
)
DIGEST: Final = blake3("\n".join(SENTENCES).encode()).digest()

_HASH_BYTES: Final = 32
_NUMBER: Final = np.dtype("<f8")

Mean = NDArray[np.float64]


class Plain:
    """The mean of the plain sentences' vectors. Safe for several threads."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._made: dict[bytes, Mean] = {}  # of each model
        self._kept: dict[Path, Mean] = {}

    def mean(self, folder: Path, provider: Provider) -> Mean:
        """Return the one that is kept in the folder of a model of a scope; where none is, it is made.

        Raises:
            EmbeddingFailed: the provider does not make it now.
        """
        known = self._kept.get(folder)
        if known is not None:  # without the lock: another scope's may be made just now, which takes its time
            return known
        with self._mutex:
            found = _read(folder, provider)
            if found is None:
                found = self._made.get(provider.digest)
                if found is None:
                    found = self._made[provider.digest] = _make(provider)
                if not folder.is_dir():  # nothing is embedded yet
                    return found
                with suppress(OSError):  # a place that takes nothing more, or is only read
                    place_file(folder / FILE, _packed(found, provider), replace=True)
            self._kept[folder] = found
            return found


def _make(provider: Provider) -> Mean:
    vectors = packable(provider.documents(SENTENCES), len(SENTENCES), provider.dimension)
    if vectors is None:
        raise EmbeddingFailed("the provider gave vectors of another shape, or none that can be used")
    return mean_of(unit(vectors.astype(np.float64)))


def _packed(mean: Mean, provider: Provider) -> bytes:
    body = DIGEST + provider.digest + mean.astype(_NUMBER).tobytes()
    return body + blake3(body).digest()


def _read(folder: Path, provider: Provider) -> Mean | None:
    try:
        raw = read_file(folder / FILE)
    except EngramError:
        return None
    head = DIGEST + provider.digest
    body, told = raw[:-_HASH_BYTES], raw[-_HASH_BYTES:]
    if len(body) != len(head) + provider.dimension * _NUMBER.itemsize:
        return None
    if not body.startswith(head) or blake3(body).digest() != told:
        return None
    return np.frombuffer(body, _NUMBER, offset=len(head)).astype(np.float64)
