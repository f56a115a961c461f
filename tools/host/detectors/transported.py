"""Secrets as they travel: in URLs and connection strings, headers, cookies and command lines."""

from __future__ import annotations

import base64
import binascii
import re

from tools.host.detectors.detector import Detector
from tools.host.detectors.values import (
    has_digit_and_letter,
    is_code,
    is_masked,
    is_placeholder,
    looks_like_password,
    looks_random,
)

_URL = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]{1,30}://(?P<user>[^\s/:@\"'<>`]{0,128}):(?P<password>[^\s/@\"'<>`]{1,256})"
    r"@(?P<host>[\w\[.-]{0,255})"
)
_DOCUMENTED = (
    frozenset({"user", "username", "usr", "login", "name"}),
    frozenset({"password", "passwd", "pass", "pwd", "pw", "passw0rd"}),
    frozenset({"host", "hostname", "server", "netloc", "domain", ""}),
)
_QUERY = re.compile(
    r"[?&;](?:access_token|auth_token|api_?key|apikey|token|key|secret|client_secret|password|passwd|pwd|sig|signature|"
    r"x-amz-signature|x-amz-security-token|code|jwt)=(?P<value>[^\s&#\"'<>`;)]{6,512})",
    re.IGNORECASE,
)
_PAIRS = re.compile(
    r"(?:^|[;\s\"'])(?:password|pwd|accountkey|sharedaccesskey|sharedsecret)\s?=\s?(?P<value>[^;\s\"']{4,256})",
    re.IGNORECASE,
)
_PAIRS_BESIDE = re.compile(
    r"(?:^|[;\s\"'?&])(?:server|data source|host|hostaddr|dbname|database|initial catalog|user id|uid|user|username|"
    r"endpoint|accountname|dsn|driver|port)\s?=",
    re.IGNORECASE,
)
_ORACLE = re.compile(r"(?<![\w/.@])(?P<user>\w{2,30})/(?P<password>[^\s/\"']{2,64})@(?://)?[\w.-]{1,200}:\d{2,5}[/:]\w")
_PGPASS = re.compile(r"^[\w.*-]{1,200}:(?:\d{2,5}|\*):[\w*-]{1,64}:[\w.*-]{1,64}:(?P<value>\S{3,128})$", re.MULTILINE)
_HEADER = re.compile(
    r"(?:proxy-)?authorization[\"']?\s*[:=,]\s*[\"'`]?(?:(?P<scheme>[A-Za-z][\w-]{2,20})\s+)?"
    r"(?P<value>[A-Za-z0-9._~+/=:-]{8,2048})",
    re.IGNORECASE,
)
_BEARER = re.compile(r"\bbearer\s+[\"'`]?(?P<value>[A-Za-z0-9._~+/=-]{16,2048})", re.IGNORECASE)
_KEY_HEADER = re.compile(
    r"\b(?:x-[\w-]{0,30})?(?:api-?key|auth-?token|access-?token|secret|vault-token|goog-api-key|functions-key)"
    r"[\"']?\s*:\s*"
    r"[\"'`]?(?P<value>[A-Za-z0-9._~+/=-]{12,512})",
    re.IGNORECASE,
)
_COOKIE_HEADER = re.compile(r"\b(?:set-)?cookie[\"']?\s*[:=]\s*(?P<pairs>[^\n]{4,2048})", re.IGNORECASE)
_COOKIE_PAIR = re.compile(r"(?P<name>[\w.$-]{1,80})=(?P<value>[^\s;,\"']{8,2048})")
_COOKIE_NAME = re.compile(
    r"sess|sid$|^sid|auth|token|jwt|remember|logged|login|csrf|identity|^__(?:secure|host)-", re.IGNORECASE
)
_KNOWN_COOKIE = re.compile(
    r"\b(?:JSESSIONID|PHPSESSID|ASP\.NET_SessionId|ASPSESSIONID\w{0,16}|connect\.sid|sessionid|laravel_session|"
    r"_\w{1,40}_session|wordpress_logged_in_\w{1,64}|[A-Z]{0,8}SAPISID|__(?:Secure|Host)-[\w.-]{1,64})"
    r"\s?[=:]\s?[\"']?(?P<value>[^\s;,\"'<>]{12,2048})"
)
_SESSION = re.compile(
    r"\b(?:session(?:_?id)?|sess_?id|sid|remember_token)=[\"']?"
    r"(?P<value>(?P<signed>eyJ[\w-]+\.[\w-]+\.[\w-]+)|[^\s;,&\"'<>]{16,512})",
    re.IGNORECASE,
)
_COMMAND = re.compile(
    r"""
    \bcurl\b[^\n]{0,300}?\s(?:-u|--user)[\s=]["']?[^\s:"']{1,64}:(?P<curl>[^\s"']{3,128})
    | \bsshpass\s+-p\s*(?:"(?P<ssh1>[^"\n]{3,128})"|'(?P<ssh2>[^'\n]{3,128})'|(?P<ssh3>[^\s"']{3,128}))
    | \b(?:mysql|mysqldump|mysqladmin|mariadb)\b[^\n]{0,200}?\s-p(?P<mysql>[^\s"']{3,128})
    | \bredis-cli\b[^\n]{0,200}?\s-a\s+["']?(?P<redis>[^\s"']{3,128})
    | \b(?:docker|podman|helm|az|oc|skopeo)\b[^\n]{0,80}?\blogin\b[^\n]{0,200}?\s(?:-p|--password)[\s=]["']?
      (?P<docker>[^\s"']{3,128})
    | \bhtpasswd\b[^\n]{0,100}?\s-\w*b\w*\s+\S+\s+\S+\s+["']?(?P<htpasswd>[^\s"']{3,128})
    | --(?:password|passwd|passphrase|api-key|token|secret|client-secret|access-token|auth-token)[\s=]["']?
      (?P<option>[^\s"'\]]{4,256})
    | \bpass:(?P<openssl>[^\s"']{4,128})
    | \bnet\s+use\b[^\n]{0,120}?/user:\S+\s+(?P<netuse>[^\s"'/]{4,128})
    | \becho\s+["']?[\w.-]{1,32}:(?P<chpasswd>[^\s"']{4,128})["']?\s*\|\s*(?:sudo\s+)?chpasswd
    """,
    re.VERBOSE | re.IGNORECASE,
)
_SQL = re.compile(
    r"\b(?:identified\s+(?:with\s+\w+\s+)?by|(?:with\s+)?(?:encrypted\s+)?password)\s+'(?P<value>[^'\n]{3,128})'",
    re.IGNORECASE,
)
_NETRC = re.compile(r"\bmachine\s+\S+\s+login\s+\S+\s+password\s+(?P<value>\S{3,128})", re.IGNORECASE)


def _url_with_password(text: str) -> bool:
    for found in _URL.finditer(text):
        parts = (found["user"].lower(), found["password"].lower(), found["host"].lower())
        documented = all(part in words for part, words in zip(parts, _DOCUMENTED, strict=True))
        if not documented and not is_masked(found["password"]):
            return True
    return False


def _signed_url(text: str) -> bool:
    return any(looks_random(found["value"].replace("%", ""), least=12) for found in _QUERY.finditer(text)) or any(
        looks_like_password(found["value"])
        for found in _QUERY.finditer(text)
        if found.group()[1:].lower().startswith(("pass", "pwd"))
    )


def _connection_string(text: str) -> bool:
    if any(not is_placeholder(found["password"]) for found in _ORACLE.finditer(text)):
        return True
    if any(looks_like_password(found["value"], quoted=True) for found in _PGPASS.finditer(text)):
        return True
    return _PAIRS_BESIDE.search(text) is not None and any(
        not is_placeholder(found["value"]) and not is_code(found["value"])
        for found in _PAIRS.finditer(text)
        if _PAIRS_BESIDE.search(text[max(0, found.start() - 200) : found.end() + 200])
    )


def _basic(value: str) -> bool:
    try:
        decoded = base64.b64decode(value, validate=True).decode()
    except (binascii.Error, ValueError):
        return False
    user, colon, password = decoded.partition(":")
    return bool(colon and password) and user.isprintable()


def _authorization_header(text: str) -> bool:
    for found in _HEADER.finditer(text):
        value = found["value"]
        if (found["scheme"] or "").lower() == "basic" and _basic(value):
            return True
        if looks_random(value, least=12) or (found["scheme"] and looks_like_password(value)):
            return True
    return any(
        looks_random(found["value"], least=12) for pattern in (_BEARER, _KEY_HEADER) for found in pattern.finditer(text)
    )


def _session_cookie(text: str) -> bool:
    for header in _COOKIE_HEADER.finditer(text):
        for pair in _COOKIE_PAIR.finditer(header["pairs"]):
            if _COOKIE_NAME.search(pair["name"]) and has_digit_and_letter(pair["value"]) and not is_code(pair["value"]):
                return True
    if any(looks_random(found["value"]) or found["signed"] for found in _SESSION.finditer(text)):
        return True
    return any(
        has_digit_and_letter(found["value"]) and not is_code(found["value"]) and not is_placeholder(found["value"])
        for found in _KNOWN_COOKIE.finditer(text)
    )


def _command_line(text: str) -> bool:
    for found in _COMMAND.finditer(text):
        value = next(group for group in found.groups() if group is not None)
        sure = found["option"] is None and found["openssl"] is None
        if (sure and not is_placeholder(value) and not value.startswith("-")) or looks_like_password(value):
            return True
    return any(
        not is_placeholder(found["value"]) and not is_code(found["value"])
        for pattern in (_SQL, _NETRC)
        for found in pattern.finditer(text)
    )


DETECTORS = (
    Detector("url-with-password", _url_with_password, ("://",)),
    Detector("url-with-token", _signed_url, ("?", "&", ";")),
    Detector("connection-string", _connection_string, ("=", ":", "@")),
    Detector("authorization-header", _authorization_header, ("authorization", "bearer", "key", "token", "secret")),
    Detector("session-cookie", _session_cookie, ("cookie", "sess", "sid", "__secure", "__host", "logged_in")),
    Detector(
        "command-line",
        _command_line,
        ("curl", "sshpass", "mysql", "mariadb", "redis-cli", "login", "htpasswd", "--", "pass:", "net", "echo",
         "identified", "password", "machine"),
    ),
)  # fmt: skip
