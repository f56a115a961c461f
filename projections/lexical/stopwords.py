"""English words that are in every text or only ask: dropped from queries, marked in documents."""

from __future__ import annotations

from typing import Final

_FUNCTION_WORDS: Final = """
a an the this that these those and or but nor so if then than as at by for from in into of off on onto out over to
under up upon with within without about above after again against before below between down during further through
until while because since both each few more most other others some such any all no not only own same too very just
also there here once ever i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his
himself she her hers herself it its itself they them their theirs themselves one ones am is are was were be been being
have has had having do does did doing done will would shall should can could may might must ought cannot let
ca wo ain aren couldn didn doesn don hadn hasn haven isn mightn mustn needn shan shouldn wasn weren won wouldn
""".split()
_QUESTION_WORDS: Final = "what when where which who whom whose why how whether".split()
_LETTERS: Final = "d ll m o re s t ve y".split()  # what an apostrophe leaves behind

STOP_WORDS: Final[frozenset[str]] = frozenset((*_FUNCTION_WORDS, *_QUESTION_WORDS, *_LETTERS))
"""Case-folded and unstemmed."""
