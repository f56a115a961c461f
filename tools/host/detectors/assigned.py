"""A secret that is the value of a name: in code, configuration, JSON, YAML and ``.env`` files."""

from __future__ import annotations

import re

from tools.host.detectors.detector import PASSWORD_HINTS, Detector
from tools.host.detectors.values import (
    has_digit_and_letter,
    is_code,
    is_placeholder,
    is_plain_word,
    looks_like_password,
    looks_like_pin,
    looks_random,
)

_PASSWORD = (
    r"(?:pass_?word|passwd|pass_?phrase|passcode|pword|contrase[n\u00f1]a|passwort|kennwort|senha|"
    r"\u043f\u0430\u0440\u043e\u043b\u044c|비밀\s?번호|비번|암호|패스워드|パスワード|密码|密碼|"
    r"(?<![A-Za-z])(?:pwd|pw|pass)|(?<=_)(?:pwd|pw|pass)|(?<=[a-z])(?:Pwd|Pass|PW))"
)
_SECRET = (
    r"(?:(?:api|access|secret|private|signing|encryption|master|auth|account|service|storage|shared|webhook|app|client|"
    r"consumer|subscription|licen[cs]e|deploy|session|root|hmac|jwt|aes|kms|db|admin)[\s_-]?(?:access[\s_-]?)?"
    r"(?:key|secret|token)(?:[\s_-]?(?:base|id))?|secret|token|credentials?|bearer)"
)
_WEAK = frozenset({"token", "credential", "credentials", "bearer"})  # names that more often hold something else
_ASSIGN = r"\d{0,2}[\"'`]?\]?(?P<operator>\s{0,8}(?:=>|:=|={1,3}|!==?|:|\uff1a)\s{0,8})"
_QUOTE, _UNQUOTE = r"[\"'`\u201c\u2018]", r"[\"'`\u201d\u2019]"
_VALUE = (
    rf"(?:[bru]{{0,2}}{_QUOTE}(?P<quoted>[^\"'`\u201c\u201d\u2018\u2019\n]{{1,512}}){_UNQUOTE}"
    r"|(?P<bare>[^\s\"'`]{1,512}))"
)
_PASSWORD_ASSIGNED = re.compile(rf"(?P<what>{_PASSWORD}){_ASSIGN}{_VALUE}", re.IGNORECASE)
_SECRET_ASSIGNED = re.compile(rf"(?P<name>{_SECRET}){_ASSIGN}{_VALUE}", re.IGNORECASE)
_COMPARED = re.compile(
    r"[\"'](?P<value>[^\"'\s]{4,128})[\"']\s?={2,3}\s?[\w.]{0,40}(?:password|passwd|secret)\b", re.IGNORECASE
)

_ENV_SECRET = re.compile(
    r"^[ \t]*(?:export[ ]+|set[ ]+|-[ ]+)?(?:[A-Z][A-Z0-9_]*_)?"
    r"(?:PASSWORD|PASSWD|PASSPHRASE|PASS|PWD|SECRET|SECRET_KEY|API_?KEY|ACCESS_KEY|PRIVATE_KEY|ENCRYPTION_KEY|"
    r"SIGNING_KEY|MASTER_KEY|AUTH_KEY|(?P<token>TOKEN))=[\"']?(?P<value>[^\s\"']{4,512})[\"']?[ \t]*$",
    re.MULTILINE,
)
_ENV_LINE = re.compile(
    r"^(?:export[ ]+)?(?P<name>[A-Z][A-Z0-9_]{2,60})=[\"']?(?P<value>[^\s\"']{16,512})[\"']?$", re.MULTILINE
)
_PUBLIC_NAME = re.compile(
    r"SHA|HASH|COMMIT|DIGEST|CHECKSUM|VERSION|REV|UUID|(?:^|_)ID$|URL|URI|PATH|DIR|IMAGE|TAG|PUBLIC|CERT|CURSOR"
)

_SAYS = r"[\"']?\s{0,4}(?:=|:|is)\s{0,4}[\"'`]?"
_ENDS = r"[\"'`.]?\s*$"
_PHRASES = tuple(
    re.compile(pattern + _ENDS, re.IGNORECASE | re.MULTILINE)
    for pattern in (
        # words with spaces, where the name itself says that it is several words
        rf"(?:(?:seed|recovery|pass)[ _]?phrase|mnemonic){_SAYS}(?P<value>[a-z]{{3,10}}(?:[ -][a-z]{{3,10}}){{3,24}})",
        # words with hyphens
        rf"{_PASSWORD}{_SAYS}(?P<value>[a-z]{{3,10}}(?:-[a-z]{{3,10}}){{3,8}})",
        # four times four letters, as mail providers hand out for one application
        rf"{_PASSWORD}{_SAYS}(?P<value>[a-z]{{4}}(?: [a-z]{{4}}){{3}})",
    )
)
_PROSE = frozenset(
    {"the", "a", "an", "your", "our", "is", "are", "was", "must", "be", "to", "of", "for", "with", "and", "or", "not"}
    | {"that", "this", "which", "who", "it", "at", "from", "have", "more", "than", "least"}
)
_TRAILING = ",;.)]}>"
_SHORT_SECRET_MIN_CHARACTERS = 8  # shorter ones are versions and names


def _password_assigned(text: str) -> bool:
    return any(_is_password(text, found) for found in _PASSWORD_ASSIGNED.finditer(text))


def _is_password(text: str, found: re.Match[str]) -> bool:
    if found["quoted"] is not None:
        return looks_like_password(found["quoted"], quoted=True) and not _is_label(found["quoted"])
    whole = found["bare"]
    value = whole.rstrip(_TRAILING)
    if looks_like_password(value):
        return True
    # A plain word or a number is a password only where nothing else stands on the line, as in an ini or YAML file.
    alone = _ends_line(text, found.end()) and whole == value
    spaced_equals = "=" in found["operator"] and found["operator"] != "="
    if found["what"].lower() == "pass" or not alone or spaced_equals:
        return False
    return is_plain_word(value.rstrip("!?")) or looks_like_pin(value)


def _is_label(value: str) -> bool:
    """Whether a quoted value is what a form shows, or a name, rather than what a person types: "Password"."""
    label = r"[A-Z][a-z]+|[a-z]+(?:[._-][a-z]+)+|[A-Z]+(?:_[A-Z]+)*|[a-z]+(?:Password|Secret)"
    return re.fullmatch(label, value) is not None


def _ends_line(text: str, at: int) -> bool:
    return re.match(r"[ \t\r]*(?:\n|$)", text[at : at + 40]) is not None


def _secret_assigned(text: str) -> bool:
    return any(_is_secret(text, found) for found in _SECRET_ASSIGNED.finditer(text)) or any(
        looks_like_password(found["value"], quoted=True) for found in _COMPARED.finditer(text)
    )


def _is_secret(text: str, found: re.Match[str]) -> bool:
    name = found["name"].lower()
    value = (found["quoted"] or found["bare"]).rstrip(_TRAILING)
    if looks_random(value, least=20 if name in _WEAK else 12):
        return True
    if name in _WEAK:
        return False
    # "supersecret": made up of letters, but nothing else is called a secret and quoted
    worded = re.fullmatch(r"[a-z]{6,32}", value) is not None and is_plain_word(value)
    if found["quoted"]:
        return _is_short_secret(value) or (worded and re.search(r"secret(?:_?key)?$", name) is not None)
    return found["bare"] == value and _ends_line(text, found.end()) and _is_short_secret(value)


def _is_short_secret(value: str) -> bool:
    return len(value) >= _SHORT_SECRET_MIN_CHARACTERS and has_digit_and_letter(value) and looks_like_password(value)


def _env_value(text: str) -> bool:
    for found in _ENV_SECRET.finditer(text):
        value = found["value"]
        # A token may be a word of a grammar; a password in such a file may be anything.
        certain = found["token"] is None or _is_short_secret(value)
        if certain and not is_placeholder(value) and not is_code(value):
            return True
    return any(
        looks_random(found["value"]) and not _PUBLIC_NAME.search(found["name"]) for found in _ENV_LINE.finditer(text)
    )


def _passphrase(text: str) -> bool:
    return any(
        not _PROSE.intersection(re.split(r"[ -]", found["value"].lower()))
        for pattern in _PHRASES
        for found in pattern.finditer(text)
    )


DETECTORS = (
    Detector("password-assigned", _password_assigned, PASSWORD_HINTS),
    Detector("secret-assigned", _secret_assigned, ("key", "secret", "token", "credential", "bearer", "passw")),
    Detector("env-value", _env_value, ("=",)),
    Detector("passphrase", _passphrase, (*PASSWORD_HINTS, "phrase", "mnemonic")),
)
