"""Tokens that say by their prefix whose they are, and private keys in whatever wrapping."""

from __future__ import annotations

import re

from tools.host.detectors.detector import Detector
from tools.host.detectors.values import is_placeholder

_TOKENS = re.compile(
    r"""
    (?<![A-Za-z0-9_-])(?:
      github_pat_[A-Za-z0-9_]{22,}
    | gh[pousr]_[A-Za-z0-9]{30,}
    | gl(?:pat|dt|ft|soat|rt|cbt|ptt|agent|oas|imt|ffct)-[A-Za-z0-9_.-]{20,}
    | sk-(?:ant|proj|or|svcacct|admin)-[A-Za-z0-9_-]{16,}
    | sk-(?:[a-z]{2,8}-)?(?=[A-Za-z]*\d)[A-Za-z0-9]{20,}
    | (?:sk|rk|pk)_(?:live|test|prod)_[A-Za-z0-9]{16,} | whsec_[A-Za-z0-9+/=]{24,}
    | (?:xai|gsk|csk|fw|pplx|tvly|nvapi|r8|hf|jina|voyage|pa)[-_](?=[A-Za-z0-9_-]*\d)[A-Za-z0-9_-]{28,}
    | hf_[A-Za-z]{34}
    | AIza[A-Za-z0-9_-]{35} | ya29\.[A-Za-z0-9_-]{20,} | GOCSPX-[A-Za-z0-9_-]{20,} | 1//0[A-Za-z0-9_-]{30,}
    | npm_[A-Za-z0-9]{36} | dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,} | pypi-[A-Za-z0-9_-]{40,} | rubygems_[0-9a-f]{40,}
    | xox[abeprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,} | xapp-\d-[A-Za-z0-9-]{10,}
    | shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32} | do[opr]_v1_[0-9a-f]{64} | lin_(?:api|oauth)_[A-Za-z0-9]{32,}
    | (?:ntn_|secret_)[A-Za-z0-9]{40,} | fig[dou]_[A-Za-z0-9_-]{36,} | PMAK-[0-9a-f]{24}-[0-9a-f]{34}
    | hv[sbr]\.[A-Za-z0-9_-]{24,} | [A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{60,} | ATATT3[A-Za-z0-9_=-]{50,}
    | dapi[0-9a-f]{32} | NR(?:AK|II|JS|BR)-[A-Za-z0-9_-]{20,} | gl(?:sa|c)_[A-Za-z0-9+/=_]{32,}
    | sntry[su]_[A-Za-z0-9+/=_.-]{40,} | tskey-[a-z]+-[A-Za-z0-9-]{16,} | sq0(?:atp|csp|idp)-[A-Za-z0-9_-]{22,}
    | EAACEdEose0cBA[A-Za-z0-9]+ | EAA[A-Za-z0-9]{80,} | key-[0-9a-f]{32} | SG\.[\w-]{16,}\.[\w-]{16,}
    | pul-[0-9a-f]{40} | CFPAT-[A-Za-z0-9_-]{40,} | ops_eyJ[A-Za-z0-9+/=_-]{100,} | sbp_[0-9a-f]{40}
    | vercel_[A-Za-z0-9]{24,} | fo1_[A-Za-z0-9_-]{40,} | FlyV1[ ]fm\d_[A-Za-z0-9+/=,_-]{40,}
    | AGE-SECRET-KEY-1[0-9A-Z]{50,} | (?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])
    | S[A-Z2-7]{55}(?![A-Za-z0-9])
    )
    """,
    re.VERBOSE,
)
_PEM = re.compile(r"-{4,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}(?P<after>.{0,6})", re.DOTALL)
_QUOTED_HEADING = re.compile(r"\\?[\"'`\u201d\u2019\u00bb)\]]")
_UNWRAPPED = re.compile(
    r"(?<![A-Za-z0-9+/])(?:MII[A-Za-z0-9+/]{1,4}IBA(?:AKC|DANBgkqhkiG9w0BAQEFAASC)"  # PKCS #1, PKCS #8 RSA
    r"|MH[cQ]CAQEEI|MIG[A-Za-z0-9]AgEAM(?:BM|BA)GByqGSM49|MC4CAQAwBQYDK2VwBCIEI"  # SEC 1, PKCS #8 EC, Ed25519
    r"|b3BlbnNzaC1rZXktdjE)[A-Za-z0-9+/=\s\\]{16}"  # openssh-key-v1
)
_PUTTY = re.compile(r"PuTTY-User-Key-File-\d: .*?Private-Lines: \d", re.DOTALL)
_JWK = re.compile(r"\"(?:d|k)\"\s*:\s*\"[A-Za-z0-9_-]{22,}\"")
_CRYPT = re.compile(
    r"(?<![\w$])\$(?:2[abxy]?\$\d\d\$[./A-Za-z0-9]{53}|(?:1|5|6|y|7|apr1)\$[^\s$]{1,40}\$[./A-Za-z0-9$]{20,}"
    r"|argon2(?:id|i|d)\$[^\s\"']{30,}|pbkdf2[\w-]*\$[^\s\"']{30,})"
)


def _has_vendor_token(text: str) -> bool:
    return any(not is_placeholder(found.group()) for found in _TOKENS.finditer(text))


def _has_pem(text: str) -> bool:
    """A heading that is merely quoted (``"-----BEGIN PRIVATE KEY-----"``) has no key behind it."""
    return any(not _QUOTED_HEADING.match(found["after"]) for found in _PEM.finditer(text))


def _has_jwk(text: str) -> bool:
    return '"kty"' in text and _JWK.search(text) is not None


DETECTORS = (
    Detector("vendor-token", _has_vendor_token),
    Detector("private-key", _has_pem, ("private key",)),
    Detector("private-key-without-heading", lambda text: _UNWRAPPED.search(text) is not None),
    Detector("putty-private-key", lambda text: _PUTTY.search(text) is not None, ("putty-user-key-file",)),
    Detector("json-web-key", _has_jwk, ('"kty"',)),
    Detector("password-hash", lambda text: _CRYPT.search(text) is not None, ("$",)),
)
