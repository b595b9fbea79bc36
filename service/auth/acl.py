"""The ACL file (TOML): who may do what to which subjects.

    [roles]
    writers = ["ticdc", "ci"]

    [[rules]]
    who = ["role:writers"]           # names, role:NAME, cert:NAME; "*" is everyone who is known
    prefixes = ["shop."]             # or subjects = [exact names], or patterns = ["*-value"]
    may = ["write"]                  # read, write, delete, config

    [[rules]]
    who = ["alice"]
    may = ["admin"]                  # or metrics, history, messages: for the whole server, so without subjects

What no rule allows is refused. `write`, `delete` and `config` include `read`; `admin` is everything. Subjects are named
with their context (`:.ctx:name`); `:.ctx:` itself stands for the context's own config and mode.
"""

import fnmatch
import glob
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from ticdc_bridge.schemas.model.errors import SetupError
from ticdc_bridge.service.errors import RegistryError

READ, WRITE, DELETE, CONFIG = OF_SUBJECTS = ("read", "write", "delete", "config")
ADMIN, METRICS, HISTORY, MESSAGES = OF_SERVER = ("admin", "metrics", "history", "messages")
EVERYONE: Final = "*"
ROLE: Final = "role:"

_MOST_RULES: Final = 10_000
_LONGEST: Final = 1024
_REMEMBERED: Final = 10_000
_KINDS: Final = ("subjects", "prefixes", "patterns")


@cache
def compile_pattern(text: str) -> re.Pattern[str]:
    """A name with `*` for any run of characters. Matching takes time linear in the name."""
    return re.compile(fnmatch.translate("*".join(map(glob.escape, text.split("*")))))


@dataclass(frozen=True, slots=True)
class AccessRule:
    who: frozenset[str]
    may: frozenset[str]
    subjects: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()

    def covers(self, subject: str) -> bool:
        is_named = subject in self.subjects or subject.startswith(self.prefixes)
        return is_named or any(compile_pattern(pattern).match(subject) for pattern in self.patterns)


@dataclass(frozen=True, slots=True)
class Access:
    """The rights of some names. `everything`: no rule has to be asked."""

    rules: tuple[AccessRule, ...] = ()
    server: frozenset[str] = frozenset()
    everything: bool = False
    _known: dict[tuple[str, str], bool] = field(default_factory=dict, compare=False, hash=False, repr=False)

    def may(self, operation: str, subject: str) -> bool:
        """True if `operation` (of OF_SUBJECTS) is allowed on a subject or on the scope of a config."""
        if self.everything:
            return True
        key = (operation, subject)
        is_allowed = self._known.get(key)
        if is_allowed is None:
            is_allowed = any(
                (operation in rule.may or operation == READ) and rule.covers(subject) for rule in self.rules
            )
            if len(subject) <= _LONGEST:
                if len(self._known) >= _REMEMBERED:
                    self._known.clear()
                self._known[key] = is_allowed
        return is_allowed

    def may_serve(self, operation: str) -> bool:
        """True if `operation` (of OF_SERVER) is allowed."""
        return self.everything or operation in self.server

    def check(self, operation: str, subject: str) -> None:
        """Raises FORBIDDEN."""
        if not self.may(operation, subject):
            raise denied_error(operation, subject)


ALL: Final = Access(everything=True)
NOTHING: Final = Access()


@dataclass(frozen=True, slots=True)
class Acl:
    """The rules of a file, in their order."""

    rules: tuple[AccessRule, ...] = ()
    roles: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def access(self, name: str) -> Access:
        identities = {name, EVERYONE, *(ROLE + role for role, names in self.roles.items() if name in names)}
        rules = [rule for rule in self.rules if not rule.who.isdisjoint(identities)]
        server = frozenset().union(*(rule.may for rule in rules)) & frozenset(OF_SERVER)
        if ADMIN in server:
            return ALL
        return Access(tuple(rule for rule in rules if rule.may.intersection(OF_SUBJECTS)), server)


def denied_error(operation: str, subject: str | None) -> RegistryError:
    """Confluent's words; `subject` None: the whole server."""
    what = "the server" if subject is None else f"Subject: {subject}"
    return RegistryError("FORBIDDEN", operation=operation.capitalize(), what=what)


def read(text: str, source: str) -> Acl:
    """The rules of an ACL file's text. Raises SetupError that says where it is wrong."""
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SetupError("USAGE", details=f"{source}: {error}") from None
    _check_keys(content, ("roles", "rules"), source)
    roles = content.get("roles", {})
    if not isinstance(roles, dict):
        raise SetupError("USAGE", details=f"{source}: roles is a table of lists of names")
    members = {role: frozenset(_texts(names, f"{source}: role {role}")) for role, names in roles.items()}
    tables = content.get("rules", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise SetupError("USAGE", details=f"{source}: rules are written as [[rules]]")
    if len(tables) > _MOST_RULES:
        raise SetupError("USAGE", details=f"{source}: more than {_MOST_RULES} rules")
    rules = tuple(_rule(table, members, f"{source}: rule {index}") for index, table in enumerate(tables, 1))
    return Acl(rules, members)


def _rule(table: dict[str, Any], roles: Mapping[str, frozenset[str]], where: str) -> AccessRule:
    _check_keys(table, ("who", "may", *_KINDS), where)
    who, may = (frozenset(_texts(table.get(key), f"{where}: {key}")) for key in ("who", "may"))
    for name in who:
        if name.startswith(ROLE) and name[len(ROLE) :] not in roles:
            raise SetupError("USAGE", details=f"{where}: there is no role {name[len(ROLE) :]!r}")
    unknown = may - {*OF_SUBJECTS, *OF_SERVER}
    if unknown or not may:
        operations = ", ".join((*OF_SUBJECTS, *OF_SERVER))
        raise SetupError("USAGE", details=f"{where}: may is a list of {operations}; {sorted(unknown)} is not known")
    subjects, prefixes, patterns = (_texts(table.get(kind, []), f"{where}: {kind}", empty=True) for kind in _KINDS)
    about_subjects = bool(subjects or prefixes or patterns)
    if about_subjects and may.intersection(OF_SERVER):
        details = f"{where}: {', '.join(OF_SERVER)} are for the whole server: no subjects there"
        raise SetupError("USAGE", details=details)
    if not about_subjects and may.intersection(OF_SUBJECTS):
        raise SetupError("USAGE", details=f"{where}: says no subjects, prefixes or patterns")
    # As the registry knows names: the default context is not written.
    exact, *others = (tuple(name.removeprefix(":.:") for name in names) for names in (subjects, prefixes, patterns))
    return AccessRule(who, may, frozenset(exact), *others)


def _check_keys(table: Mapping[str, Any], keys: Iterable[str], where: str) -> None:
    """A misspelt key would be a rule that does not count."""
    unknown = set(table) - set(keys)
    if unknown:
        raise SetupError("USAGE", details=f"{where}: {sorted(unknown)} is not known; there is {', '.join(keys)}")


def _texts(value: Any, where: str, *, empty: bool = False) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(entry, str) and len(entry) <= _LONGEST for entry in value):
        raise SetupError("USAGE", details=f"{where} is a list of texts of at most {_LONGEST} characters")
    if not value and not empty:
        raise SetupError("USAGE", details=f"{where} is empty or missing")
    return value
