"""The detectors of the ``detect-secrets`` library, its plugins used directly.

Only ``analyze_string`` is called: no settings of the library, no file, and none of its verifiers, which would send the
secret over the network. Its high-entropy, keyword, basic-auth and address plugins are left out, because they fire on
hashes, identifiers and documentation; ``assigned``, ``spoken`` and ``transported`` stand in their place. What its loose
patterns find is looked at once more before it counts.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Protocol

from tools.host.detectors.detector import Detector
from tools.host.detectors.values import entropy_bits, has_digit_and_letter, is_masked, looks_random


class _Plugin(Protocol):
    def analyze_string(self, string: str) -> Iterator[str]: ...


def _anything(_value: str) -> bool:
    return True


def _random(value: str) -> bool:
    return looks_random(value, least=12)


def _long_mix(value: str) -> bool:
    return has_digit_and_letter(value.partition(":")[2]) and entropy_bits(value) >= 3.5  # noqa: PLR2004 - measured


_PLUGINS: tuple[tuple[str, str, str, tuple[str, ...], Callable[[str], bool]], ...] = (
    # module, class, our name, hints, a second look at what it matched
    ("artifactory", "ArtifactoryDetector", "artifactory-credential", ("akc", "ap"), _random),
    ("aws", "AWSKeyDetector", "aws-key", ("aws", "a3t", "abia", "acca", "akia", "asia"), has_digit_and_letter),
    ("azure_storage_key", "AzureStorageKeyDetector", "azure-storage-key", ("accountkey=",), _anything),
    ("cloudant", "CloudantDetector", "cloudant-credential", ("cl",), _random),
    ("discord", "DiscordBotTokenDetector", "discord-token", (".",), _random),
    ("github_token", "GitHubTokenDetector", "github-token", ("gh",), _anything),
    ("gitlab_token", "GitLabTokenDetector", "gitlab-token", ("gl", "gr1348941"), _anything),
    ("ibm_cloud_iam", "IbmCloudIamDetector", "ibm-cloud-key", ("key", "pwd", "pass", "token"), _random),
    ("ibm_cos_hmac", "IbmCosHmacDetector", "ibm-cos-key", ("secret",), _random),
    ("jwt", "JwtTokenDetector", "json-web-token", ("eyj",), _anything),
    ("mailchimp", "MailchimpDetector", "mailchimp-key", ("-us",), _random),
    ("npm", "NpmDetector", "npm-token", ("_authtoken",), _anything),
    ("openai", "OpenAIDetector", "openai-key", ("sk-",), _anything),
    ("pypi_token", "PypiTokenDetector", "pypi-token", ("pypi-",), _anything),
    ("sendgrid", "SendGridDetector", "sendgrid-key", ("sg.",), _anything),
    ("slack", "SlackDetector", "slack-token", ("xox", "hooks.slack"), _anything),
    ("softlayer", "SoftlayerDetector", "softlayer-key", ("sl", "softlayer"), _random),
    ("square_oauth", "SquareOAuthDetector", "square-key", ("sq0csp",), _anything),
    ("stripe", "StripeDetector", "stripe-key", ("k_live_",), _anything),
    ("telegram_token", "TelegramBotTokenDetector", "telegram-token", (":",), _long_mix),
    ("twilio", "TwilioKeyDetector", "twilio-key", ("ac", "sk"), _random),
)
_RUN = re.compile(r"[\w+/=.-]+")
_WORD_BEFORE = re.compile(r"[A-Za-z0-9+/_-]$")


@cache
def detectors() -> tuple[Detector, ...]:
    """Import the library and return its detectors; the import costs about 0.1 s, once, at the first screening."""
    made = []
    for module, class_name, name, hints, second_look in _PLUGINS:
        plugin: _Plugin = getattr(importlib.import_module(f"detect_secrets.plugins.{module}"), class_name)()
        made.append(Detector(name, _question(plugin, second_look), hints))
    return tuple(made)


def _question(plugin: _Plugin, second_look: Callable[[str], bool]) -> Callable[[str], bool]:
    def finds(text: str) -> bool:
        for value in plugin.analyze_string(text):
            at = text.find(value)
            # A pattern without borders also matches inside longer strings, such as base64 of an image; and some
            # patterns hand out only the prefix of what they matched, so the whole run is looked at for a mask.
            inside = _WORD_BEFORE.search(text[max(at - 1, 0) : at]) is not None
            run = _RUN.match(text, at)
            if not inside and second_look(value) and not (run and is_masked(run.group())):
                return True
        return False

    return finds
