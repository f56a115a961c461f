"""Judging a value that stands where a secret would: is it one, or a placeholder, a word, a name, a piece of code?"""

from __future__ import annotations

import math
import re
from collections import Counter
from itertools import pairwise

_PASSWORD_CHARACTERS = range(4, 129)
_WORD_CHARACTERS = range(4, 25)
_RANDOM_MAX_CHARACTERS = 512
_CHANGES_MIN = 0.22  # a character; see looks_random
_ENTROPY_MIN_BITS = 2.8  # a character; 16 hexadecimal digits drawn at random have 3.2 and more

_VARIABLE = re.compile(
    r"""
    ^[<\[({%].*            # <password>, [REDACTED], {password}, %(password)s
    | ^\$[({].*            # ${PASSWORD}, $(pass show db)
    | ^\$[A-Z_][A-Z0-9_]*$ | ^\$[a-z_]+$   # $PASSWORD, $password
    | ^%[sdr]$ | .*%\([a-z_]+\)s.* | .*\$\{.* | .*\{\{.*
    | ^[*x.#_\-\u2022\u25cf\u2026?]+$          # ****, xxxx, ...
    | .*(?:\.\.\.|\u2026|\*\*\*|xxxx).*
    """,
    re.VERBOSE | re.IGNORECASE,
)
_YOURS = re.compile(
    r"(?:your|my|the|some|any|new|old|insert|enter|example|sample|dummy|fake|placeholder|redacted)[-_ ]?"
    r"(?:own[-_ ]?)?(?:\w+[-_ ])?(?:db|api|admin|user|root)?[-_ ]?"
    r"(?:password|passwd|pass|pwd|pw|passphrase|token|key|secret|value|credentials?)(?:[-_ ]?here)?",
    re.IGNORECASE,
)
_WORDS = frozenset(
    """
    password passwd pass pwd pw passphrase passcode secret token key value string str text bytes char varchar int bool
    boolean object any unknown optional required mandatory none null nil undefined true false yes no on off empty blank
    missing invalid valid wrong correct incorrect weak strong hidden masked redacted removed hashed encrypted encoded
    plain plaintext cleartext default unset set not never always must should may can will is are was has have had the a
    an in at to of for and or if when with by from via user username login email field input label prompt hash
    salt argon bcrypt scrypt sha md hmac ascii utf latin base hex example sample placeholder todo tbd na anonymous self
    cls this that it its here there see stored kept changed reset expired rotated shared same different unique random
    generated auto automatic manual private public protected internal external readonly writeonly sensitive
    confidential unchanged disabled enabled needed authentication authorization credential credentials basic bearer
    env environment vault keyring keychain file stdin ignore ignored skip skipped short long complex minimum maximum
    """.split()
)  # fmt: skip
_DESCRIBING = re.compile(r"[a-z]{3,}(?:ed|ing|able|ible|ive|ly|ory|ary|ous|less|ful|ment|tion|sion|ity)$")
_ALGORITHM = re.compile(
    r"^(?:sha|md|utf|iso|base|bcrypt|scrypt|argon|pbkdf|aes|rsa|hmac|hs|rs|es|ed|x|oauth|tls|ssl|http|rfc|v|ver|py|"
    r"python|type|level|step|phase|option|part|section|line|page|chacha|blake|ripemd|3des|des|pkcs|ecdsa|cp|ucs|"
    r"arg|param|var|val|str|s|p|i|n|k|a|b|c|field|item|row|col|user|u?int|float|char|varchar|version|kerberos|ldap|saml|"
    r"mod|group)[-_.]?v?\d{1,4}[a-z]?(?:[-_./]\w+)?$"
    r"|^(?:password|passwd|pwd|pw|pass|secret|token|key)[-_]?\d$",
    re.IGNORECASE,
)
_CODE = re.compile(
    r"""
    [(){}\[\]<>|\\]                                   # a call, a subscript, a type
    | ^[A-Za-z_]\w*(?:(?:\.|::|->)[A-Za-z_]\w*)+$      # an attribute
    | ^(?:https?|file|ftp)://                          # judged as a URL
    | ^[~.]{0,2}/(?:[\w.@-]+/)*[\w.@-]*$               # a path
    | ^--?[a-z] | ^@\w+$ | ^&\w+
    """,
    re.VERBOSE,
)
_COUNT = re.compile(
    r"^\d+(?:[.,-]\d+)*(?:st|nd|rd|th|s|ms|m|h|d|kb|mb|gb|k|x|bit|bits|byte|bytes|char|chars|%|\+)?$", re.IGNORECASE
)
_UUID = re.compile(r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$", re.IGNORECASE)
_VERSION = re.compile(r"^v?\d+[.:]\d+[\w.+~:-]*$")
_PATH = re.compile(r"^[~.]{0,2}/(?:[\w.@-]+/)*[\w.@-]*$")
_DATE = re.compile(r"^\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?:[T ].*)?$|^\d{1,2}:\d{2}(?::\d{2})?(?:am|pm)?$", re.IGNORECASE)
_PIN = re.compile(r"^\d{4,12}$")
_SYMBOLS = re.compile(r"[!@#$%^&*?~+]")


def is_masked(value: str) -> bool:
    """Whether a value is a variable, a mask or a "your-password": certain even where plain words count as secrets."""
    bare = value.strip().strip(".,:;!?\"'`")
    return not bare or _VARIABLE.match(value) is not None or _YOURS.fullmatch(bare) is not None


def is_placeholder(value: str) -> bool:
    """Whether a value stands for a secret without being one: a variable, a mask, "your-password", "required"."""
    bare = value.strip().strip(".,:;!?\"'`")
    return is_masked(value) or bare.lower() in _WORDS or _ALGORITHM.match(bare) is not None


def is_code(value: str) -> bool:
    """Whether an unquoted value is an expression, a type, a path or an option rather than a literal."""
    return _CODE.search(value) is not None


def has_digit_and_letter(value: str) -> bool:
    """Whether a value mixes digits and letters, as passwords do and words do not."""
    return any(char.isdigit() for char in value) and any(char.isalpha() for char in value)


def looks_like_password(value: str, *, quoted: bool = False) -> bool:
    """Whether a value that follows a word for password looks like one.

    Quoted, anything without spaces that is no placeholder does. Unquoted, it takes a digit among letters, or a symbol.
    """
    if len(value) not in _PASSWORD_CHARACTERS or is_placeholder(value) or _UUID.match(value) or _DATE.match(value):
        return False
    if quoted:
        return not re.search(r"\s", value) and not _PATH.match(value)
    if is_code(value) or _COUNT.match(value) or _VERSION.match(value) or not value.isascii():
        return False
    mixed = has_digit_and_letter(value) and not _slug(value)
    return mixed or (_SYMBOLS.search(value.rstrip("!?")) is not None and any(char.isalnum() for char in value))


def looks_like_pin(value: str) -> bool:
    """Whether a value is 4 to 12 digits."""
    return _PIN.match(value) is not None


def is_plain_word(value: str) -> bool:
    """Whether a value is one word of letters that could be a password and is not a word that describes one."""
    bare = value.lower()
    if not (bare.isascii() and bare.isalpha() and len(bare) in _WORD_CHARACTERS):
        return False
    return bare not in _WORDS and _DESCRIBING.match(bare) is None


def looks_random(value: str, *, least: int = 16) -> bool:
    """Whether a value looks drawn at random: long enough, digits among letters, and changing class again and again.

    Identifiers, paths and slugs change class at word borders only. Measured on random strings, the changes a character
    are 0.40 (base 36), 0.44 (base 62) and 0.47 (hexadecimal); in camelCase about 0.17.
    """
    if (
        not least <= len(value) <= _RANDOM_MAX_CHARACTERS
        or is_placeholder(value)
        or _UUID.match(value)
        or _DATE.match(value)
    ):
        return False
    if not has_digit_and_letter(value) or _slug(value) or is_code(value):
        return False
    return class_changes(value) / len(value) >= _CHANGES_MIN and entropy_bits(value) >= _ENTROPY_MIN_BITS


def class_changes(value: str) -> int:
    """Count the changes of class along a value; from a capital to a small letter is none, as words begin so."""
    classes = ["d" if c.isdigit() else "u" if c.isupper() else "l" if c.isalpha() else "s" for c in value]
    return sum(one != two and (one, two) != ("u", "l") and "s" not in (one, two) for one, two in pairwise(classes))


def entropy_bits(value: str) -> float:
    """Return the Shannon entropy of a value, in bits a character."""
    total = len(value)
    return -sum(count / total * math.log2(count / total) for count in Counter(value).values())


def _slug(value: str) -> bool:
    """Whether a value is words and short numbers joined by punctuation: my-service-v2, 2024-report_final.txt."""
    parts = [part for part in re.split(r"[-_./:,+=]+", value) if part]
    if len(parts) == 1:
        return False
    return all(re.fullmatch(r"[A-Za-z]+\d{0,3}|\d{1,4}|v\d+", part) for part in parts)
