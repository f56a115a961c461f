"""A secret that is said in a sentence, in English, Korean and a few more languages."""

from __future__ import annotations

import re

from tools.host.detectors.detector import Detector
from tools.host.detectors.values import (
    has_digit_and_letter,
    is_code,
    is_plain_word,
    looks_like_password,
    looks_like_pin,
    looks_random,
)

_QUOTES = "\"'`\u201c\u201d\u2018\u2019\u300c\u300e\u00ab"
_VALUE = (
    rf"(?:(?:[{_QUOTES}]|\*\*)(?P<quoted>[^\s{_QUOTES}\u300d\u300f\u00bb]{{1,512}})(?:[{_QUOTES}\u300d\u300f\u00bb]|\*\*)"
    r"|(?P<bare>[\x21\x23-\x26\x28-\x5f\x61-\x7e]{1,512}))"
)
_TRAILING = ".,;:)!?]"

_WHAT = r"\b(?:password|passwd|pass\s?phrase|pass\s?code|pin(?:\s(?:code|number))?|pw|pwd|login)"
_SAID = re.compile(
    rf"{_WHAT}(?:\s+(?:for|of|on)\s+[\w.@'-]{{1,40}}(?:\s[\w.@'-]{{1,40}}){{0,4}}?)?"
    r"(?P<link>\s+(?:is|was|are|became|will\sbe|should\sbe|remains|equals)"
    r"(?:\s+(?:now|still|just|currently|set\sto|changed\sto))?|\s+to|\s+of|\s*(?:->|\u2192|=|:))\s+" + _VALUE,
    re.IGNORECASE,
)
_JUXTAPOSED = re.compile(rf"{_WHAT}\s+{_VALUE}", re.IGNORECASE)
_USED_AS = re.compile(
    rf"\b(?:use|using|type|typed|enter|entered|try|tried)\s+{_VALUE}\s+(?:as|for)\s+(?:the|a|my|your|our|its)?\s*"
    r"(?:\w+\s)?(?:password|passphrase|passcode|pin|pw)\b",
    re.IGNORECASE,
)
_STATING = frozenset({"is", "was", "is now", "->", "\u2192", "="})
_OWNED = re.compile(
    r"\b(?:the|my|our|his|her|their|your|admin|root|db|database|wi-?fi|server|guest|default|new|old|current)\s+$",
    re.IGNORECASE,
)
_SENTENCE_ENDS = re.compile(r"[.!\s]*(?:\n|$)|[.!]\s")

_ASIAN = re.compile(
    r"(?:비밀\s?번호|비번|암호|패스워드|패스\s?코드|핀\s?번호|PIN\s?번호|パスワード|暗証番号|密码|密碼|口令)"
    r"\s?(?:값|문구)?\s?(?:은|는|이|가|을|를|도|로|에|は|が|を|是|为|為|:|=|\uff1a|\u2192|->)?\s{0,3}"
    rf"(?:아직|이제|지금|현재|바로|그냥)?\s{{0,2}}{_VALUE}(?P<after>.{{0,8}})"
)
_COPULA = re.compile(r"\s?(?:이다|입니다|였습니다|이었습니다|예요|이에요|이야|야|임|였다|이었다|이라|라고|です|だ)")
_UNIT = re.compile(
    r"\s?(?:자|글자|번|회|개|일|년|월|시|분|초|명|원|비트|바이트|가지|주|단계|칸|"
    r"-?\s?(?:digits?|characters?|chars?|letters?|bits?|bytes?|times|days?|weeks?|months?|years?|hours?|minutes?|"
    r"attempts?)\b)",
    re.IGNORECASE,
)

_SECRET_NAMED = re.compile(
    r"(?:(?:api|access|auth|refresh|session|bearer|secret|client|signing|encryption|private|deploy(?:ment)?|licen[cs]e|"
    r"webhook|personal\saccess|service\saccount|root|master|bot|id)[\s_-](?:key|token|secret|cookie)|token|secret|"
    r"credentials?|(?:API|액세스|접근|인증|비밀|시크릿|암호화|서명|세션)\s?(?:키|토큰|쿠키)|토큰|시크릿|"
    r"トークン|令牌|密钥)"
    rf"(?P<between>[^\n]{{0,60}}?)(?<![\w/+.-])[{_QUOTES}]?(?P<value>[A-Za-z0-9_\-+/=.~]{{16,512}})",
    re.IGNORECASE,
)
_DIRECTLY = re.compile(r"[\s\"'`:=\-\u2192>\uff1a]*(?:(?:is|was|to|은|는|이|가|값은)\s*)?[\"'`:=\s]*")
_TOLD = re.compile(
    r"hash|digest|sha|commit|uuid|\bid\b|ref|path|file|http|public|record|mem_|image|branch|cursor|receipt"
)
_SECRET_IS = re.compile(
    rf"\b(?:secret|api\skey|api\stoken|access\skey|access\stoken|license\skey)\s+(?:is|was)\s+{_VALUE}", re.IGNORECASE
)
_SECRET_MIN_CHARACTERS = 8

_CREDENTIALS = re.compile(
    r"(?:credentials?|creds|log\s?in|sign\s?in|account|id\s?/\s?(?:pw|password)|user(?:name)?\s?/\s?pass(?:word)?|"
    r"아이디\s?/\s?(?:비밀번호|비번)|계정|접속\s?정보|로그인)\s*(?:is|are|with|as|:|=|은|는)\s*"
    rf"[{_QUOTES}]?[\w.@-]{{2,64}}[{_QUOTES}]?\s?(?:/|:|,|\||and|with)\s?{_VALUE}",
    re.IGNORECASE,
)
_PAIR = re.compile(
    rf"\b(?:user(?:name)?|login|id|account|email|아이디|계정)\s?[:=]\s?[{_QUOTES}]?(?P<user>[\w.@-]{{2,64}})[{_QUOTES}]?"
    r"[\s,;/|]{1,4}(?:and\s)?(?:password|passwd|pass|pwd|pw|비밀\s?번호|비번|암호)\s?[:=]\s?" + _VALUE,
    re.IGNORECASE,
)
_OWN_NAMES = frozenset({"password", "passwd", "pass", "pwd", "pw"})


def _value(found: re.Match[str]) -> str:
    return (found["quoted"] or found["bare"]).rstrip(_TRAILING)


def _said_in_english(text: str) -> bool:
    return (
        any(_is_said(text, found) for found in _SAID.finditer(text))
        or any(_is_juxtaposed(text, found) for found in _JUXTAPOSED.finditer(text))
        or any(
            looks_like_password(found["quoted"] or found["bare"], quoted=found["quoted"] is not None)
            for found in _USED_AS.finditer(text)
        )
    )


def _is_said(text: str, found: re.Match[str]) -> bool:
    if found["quoted"] is not None:
        return looks_like_password(found["quoted"], quoted=True)
    value = _value(found)
    ends = found.start("bare") + len(value)
    if _UNIT.match(text, ends):
        return False
    if looks_like_password(value):
        return True
    link = found["link"].strip().lower()
    if looks_like_pin(value):
        return link not in ("of", ":")
    # "the password is swordfish.": a plain word, of which somebody has the password, and the sentence ends
    owned = _OWNED.search(text[max(0, found.start() - 16) : found.start()]) is not None
    return link in _STATING and owned and is_plain_word(value) and _SENTENCE_ENDS.match(text, ends) is not None


def _is_juxtaposed(text: str, found: re.Match[str]) -> bool:
    """Whether what merely follows the word is a password: digits among letters, and no count of anything."""
    value = _value(found)
    return has_digit_and_letter(value) and looks_like_password(value) and not _UNIT.match(text, found.end())


def _said_in_asian_languages(text: str) -> bool:
    return any(_is_said_in_asian_languages(found) for found in _ASIAN.finditer(text))


def _is_said_in_asian_languages(found: re.Match[str]) -> bool:
    if found["quoted"] is not None:
        return looks_like_password(found["quoted"], quoted=True)
    value, after = _value(found), found["after"]
    if _UNIT.match(after):
        return False
    if looks_like_password(value) or looks_like_pin(value):
        return True
    return is_plain_word(value) and (_COPULA.match(after) is not None or not after.strip(" .!\n"))


def _secret_said(text: str) -> bool:
    """A random string soon after a word for a secret; a hash or an id that stands there is told by its own word."""
    if any(_is_random_secret(found) for found in _SECRET_NAMED.finditer(text)):
        return True
    return any(
        len(_value(found)) >= _SECRET_MIN_CHARACTERS
        and has_digit_and_letter(_value(found))
        and looks_like_password(_value(found))
        for found in _SECRET_IS.finditer(text)
    )


def _is_random_secret(found: re.Match[str]) -> bool:
    value = found["value"].rstrip(".=")
    if not looks_random(value, least=16):
        return False
    between = found["between"].lower()
    if _DIRECTLY.fullmatch(between):
        return True
    both_cases = re.search(r"[A-Z]", value) and re.search(r"[a-z]", value)
    return bool(both_cases) and not _TOLD.search(between)


def _credentials_said(text: str) -> bool:
    return any(_is_pair(found) for found in _PAIR.finditer(text)) or any(
        looks_like_password(_value(found)) for found in _CREDENTIALS.finditer(text)
    )


def _is_pair(found: re.Match[str]) -> bool:
    value = _value(found)
    # user=user, password=password: a call that hands on its own arguments, or a form's description
    if value.lower() in _OWN_NAMES and found["user"].lower() in ("user", "username"):
        return False
    return not is_code(value) and (looks_like_password(value) or is_plain_word(value))


DETECTORS = (
    Detector("password-said", _said_in_english, ("pass", "pin", "pw", "login")),
    Detector(
        "password-said-asian",
        _said_in_asian_languages,
        ("비밀", "비번", "암호", "패스", "핀", "pin", "パスワード", "暗証", "密码", "密碼", "口令"),
    ),
    Detector(
        "secret-said",
        _secret_said,
        ("key", "token", "secret", "credential", "cookie", "키", "토큰", "쿠키", "시크릿", "トークン", "令牌", "密钥"),
    ),
    Detector("credentials-said", _credentials_said),
)
