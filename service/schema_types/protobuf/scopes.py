"""Which declaration a type name means: Protobuf's rule, from the innermost scope outwards.

All names are one tree of name parts, so that looking a name up costs its parts times the depth of the scope.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from ticdc_bridge.service.schema_types.protobuf.model import Enum, Extend, Field, File, Message, is_map_entry


class Origin(NamedTuple):
    subject: str
    version: int


THIS_SCHEMA: Final = Origin("", -1)
"""The schema itself."""


@dataclass(frozen=True, slots=True)
class DeclaredType:
    """A message or enum. `origin` is None for built-in files and for references of references."""

    type: Message | Enum
    package: str
    local: tuple[str, ...]
    origin: Origin | None

    @property
    def full_name(self) -> str:
        return ".".join((self.package, *self.local) if self.package else self.local)

    def map_type(self) -> str | None:
        """`map<k, v>` if this is the entry message of a map. Raises ValueError when it lacks its key or value."""
        if isinstance(self.type, Enum) or not is_map_entry(self.type):
            return None
        pieces = {field.name: field.type for field in reversed(self.type.fields)}
        if "key" not in pieces or "value" not in pieces:
            raise ValueError(f"the map entry {self.type.name} needs fields 'key' and 'value'")
        return f"map<{pieces['key']}, {pieces['value']}>"


class ScopeName:
    """A place in the tree of names."""

    __slots__ = ("children", "extension", "type")

    def __init__(self) -> None:
        self.children: dict[str, ScopeName] = {}
        self.type: DeclaredType | None = None
        self.extension: tuple[str, Field] | None = None

    def make(self, name: str) -> ScopeName:
        scope = self
        for step in name.split("."):
            scope = scope.children.setdefault(step, ScopeName())
        return scope

    def find(self, pieces: Iterable[str]) -> ScopeName | None:
        scope: ScopeName | None = self
        for name in pieces:
            scope = scope.children.get(name) if scope is not None else None
        return scope


class DeclaredNames:
    """The names of a schema and of what it refers to, before those of `base`. Files added later replace equal names."""

    def __init__(self, base: DeclaredNames | None = None) -> None:
        self.root = ScopeName()
        self.roots: tuple[ScopeName, ...] = (self.root, *(base.roots if base else ()))

    def add(self, file: File, origin: Origin | None) -> None:
        package = file.package or ""
        base = self.root.make(package) if package else self.root
        self._extensions(file.extends, base, package)
        self._types(file.types, base, package, (), origin)

    def _types(
        self, types: list[Message | Enum], base: ScopeName, package: str, path: tuple[str, ...], origin: Origin | None
    ) -> None:
        for type_ in types:
            position, local = base.make(type_.name), (*path, type_.name)
            if isinstance(type_, Message):
                self._extensions(type_.extends, position, ".".join((package, *local) if package else local))
            position.type = DeclaredType(type_, package, local, origin)
            if isinstance(type_, Message):
                self._types(type_.types, position, package, local, origin)

    def _extensions(self, extends: Iterable[Extend], base: ScopeName, prefix: str) -> None:
        for field in (field for extend in extends for field in extend.fields):
            base.make(field.name).extension = (f"{prefix}.{field.name}" if prefix else field.name, field)

    def scope(self, package: str | None, *names: str) -> Scope:
        scope = Scope((self.roots,))
        for name in [*(package.split(".") if package else ()), *names]:
            scope = scope.enter(name)
        return scope


class Scope:
    """The package and messages a name is used in: for each level the places in the trees, outermost first."""

    __slots__ = ("_levels",)

    def __init__(self, levels: tuple[tuple[ScopeName, ...], ...]) -> None:
        self._levels = levels

    def enter(self, name: str) -> Scope:
        names = name.split(".")
        scopes = (scope.find(names) for scope in self._levels[-1])
        return Scope((*self._levels, tuple(scope for scope in scopes if scope is not None)))

    def _candidates(self, name: str) -> Iterator[ScopeName]:
        """The places that `name` may mean, the nearest first."""
        absolute = name.startswith(".")
        names = name.removeprefix(".").split(".")
        for scopes in self._levels[:1] if absolute else reversed(self._levels):
            for scope in scopes:
                match = scope.find(names)
                if match is not None:
                    yield match

    def type(self, name: str) -> DeclaredType | None:
        return next((scope.type for scope in self._candidates(name) if scope.type is not None), None)

    def extension(self, name: str) -> tuple[str, Field] | None:
        """The full name and the field of the extension that `name` means here."""
        return next((scope.extension for scope in self._candidates(name) if scope.extension is not None), None)
