"""What a detector is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

PASSWORD_HINTS = (
    *("pass", "pwd", "pw", "contrase", "kennwort", "senha", "\u043f\u0430\u0440\u043e\u043b\u044c"),
    *("비밀", "비번", "암호", "패스워드", "パスワード", "密码", "密碼"),
)
"""One of these stands wherever a password is named."""


@dataclass(frozen=True, slots=True)
class Detector:
    """A name for the host's view, and a question about a piece of text (NFKC, at most a screen window long).

    ``hints`` are lower-case strings of which one must occur before the question is worth asking; none: always ask.
    """

    name: str
    finds: Callable[[str], bool]
    hints: tuple[str, ...] = ()
