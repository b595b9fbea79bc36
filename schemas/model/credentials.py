"""Texts without the credentials in them: the one masker of service and jobs, for logs, messages and errors."""

import re
from collections.abc import Mapping
from functools import partial
from typing import Final

_WORD: Final = re.compile(r"\S+")
_USER_INFO: Final = re.compile(r"^(?!\w+://USER@HOST\b)([^@]*?://)?.*@", re.DOTALL)  # not of what an error asks for
_NAME: Final = r"(?:password|passwd|secret|token)[\w.-]{0,40}"
_TEXT: Final = r'"(?:[^"\\]|\\.)*"' + r"|'(?:[^'\\]|\\.)*'"
# Where a credential may stand in a text → what stays of it.
_SECRETS: Final = (
    (re.compile(r"\b(basic|bearer)\s+[\w+/=.~-]{8,}", re.IGNORECASE), r"\1 ***"),
    (re.compile(rf"({_NAME}\s{{0,4}}=\s{{0,4}})(?:{_TEXT}|[^\s&]+)", re.IGNORECASE), r"\1***"),
    (re.compile(rf"""({_NAME}["']\s{{0,4}}:\s{{0,4}})(?:{_TEXT})""", re.IGNORECASE), r"\1***"),
)
mask_passwords: Final = partial(re.compile(r"(:/{1,2})[^\s/:@]*:\S*@").sub, r"\1***@")
"""A text without NAME:PASSWORD@ in its URLs; abfs://CONTAINER@ACCOUNT stays."""
_SECRET_SETTING: Final = re.compile(r"password|passwd|secret|token|jaas|\.key\b", re.IGNORECASE)


def mask_credentials(text: str) -> str:
    """A text without the credentials of URLs, `Authorization` headers, `password=…`, JAAS and JSON."""
    if "@" in text and "://" in text:
        text = _WORD.sub(lambda word: _mask_user(word[0]) if "://" in word[0] else word[0], text)
    for pattern, stays in _SECRETS:
        text = pattern.sub(stays, text)
    return text


def mask_url(url: str) -> str:
    """A URL, whatever is wrong with it, without its user info and its passwords."""
    return mask_credentials(_mask_user(url))


def _mask_user(url: str) -> str:
    """The last @ ends the user info: masking too much is safe."""
    return _USER_INFO.sub(r"\1***@", url) if "@" in url else url


def mask_settings(text: str, settings: Mapping[str, object]) -> str:
    """A text without the values of the settings that are secret by their name."""
    for name, value in settings.items():
        if value and _SECRET_SETTING.search(name):
            text = text.replace(str(value), "***")
    return mask_credentials(text)
