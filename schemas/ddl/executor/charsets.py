"""Character sets and collations as TiDB resolves them (upstream `pkg/ddl/create_table.go`, ResolveCharsetCollation)."""

import codecs
import unicodedata
from typing import NamedTuple

from ticdc_bridge.schemas.model.errors import DdlError


class Charset(NamedTuple):
    """A character set and a collation; both "" where nobody has said."""

    name: str
    collate: str


# name → default collation, longest character in bytes
_CHARSETS: dict[str, tuple[str, int]] = {
    "utf8mb4": ("utf8mb4_bin", 4), "utf8": ("utf8_bin", 3), "utf8mb3": ("utf8_bin", 3), "latin1": ("latin1_bin", 1),
    "ascii": ("ascii_bin", 1), "binary": ("binary", 1), "gbk": ("gbk_chinese_ci", 2),
    "gb18030": ("gb18030_chinese_ci", 4),
}  # fmt: skip

# Character sets whose bytes are not UTF-8 in TiDB → Python's codec. TiDB treats latin1 as UTF-8.
_CODECS = {"gbk": "gbk", "gb18030": "gb18030", "ascii": "ascii"}

BINARY = Charset("binary", "binary")
DEFAULT = Charset("utf8mb4", "utf8mb4_bin")
UNKNOWN = Charset("", "")


def resolve(charset: str | None, collate: str | None, fallback: Charset) -> Charset:
    """The written character set and collation, either of which may be missing, else the fallback.

    DdlError DDL_NOT_APPLICABLE for a character set or collation that TiDB does not have.
    """
    if charset == "default":
        charset = ""
    if not charset and not collate:
        return fallback
    if charset and charset not in _CHARSETS:
        raise DdlError("DDL_NOT_APPLICABLE", details=f"character set {charset!r} is not TiDB's: {', '.join(_CHARSETS)}")
    charset = "utf8" if charset == "utf8mb3" else charset or ""
    if not collate:
        return Charset(charset, _CHARSETS[charset][0])
    collate = collate.replace("utf8mb3_", "utf8_")
    owner = collate if collate == "binary" else collate.partition("_")[0]
    if owner not in _CHARSETS or (charset and owner != charset):
        of = f" of character set {charset}" if charset else ""
        raise DdlError("DDL_NOT_APPLICABLE", details=f"collation {collate!r} is none{of} that TiDB has")
    return Charset(owner, collate)


def is_default(charset: str, collate: str) -> bool:
    """True if a collation is its character set's default one."""
    return _CHARSETS.get(charset, ("", 0))[0] == collate


def longest_character(charset: str) -> int:
    """Bytes of the character set's longest character; of utf8mb4 where it isn't known."""
    return _CHARSETS.get(charset, ("", 4))[1]


def decode(raw: bytes, charset: str, errors: str = "strict") -> str:
    """Bytes in a character set → text. UnicodeDecodeError for what is none, with errors "ddl-?" question marks.

    Of latin1 and binary TiDB keeps bytes that are no UTF-8 as they are, which no text can: an error in any case.
    """
    return raw.decode(_CODECS.get(charset, "utf-8"), "strict" if charset in ("latin1", "binary") else errors)


def encodable(text: str, charset: str) -> bool:
    """True if a text can be in a character set: utf8 has no characters of 4 bytes."""
    if charset == "utf8":
        return all(ord(character) < 0x10000 for character in text)
    try:
        text.encode(_CODECS.get(charset, "utf-8"))
    except UnicodeEncodeError:
        return False
    return True


def _question_mark(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "?", error.end


codecs.register_error("ddl-?", _question_mark)


def collation_weight(text: str, collate: str) -> str:
    """A key of a text: the same for all texts that a collation calls equal."""
    if collate != "binary" and "_0900_" not in collate:  # PAD SPACE
        text = text.rstrip(" ")
    if collate.endswith(("_bin", "binary")):
        return text
    text = text.casefold()
    if collate == "gbk_chinese_ci" or collate == "gb18030_chinese_ci":
        return text
    return "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))
