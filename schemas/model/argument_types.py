"""Arguments of the Python API, held to the types that their functions declare."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from inspect import signature
from os import PathLike
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, Unpack, get_args, get_origin, get_type_hints

from ticdc_bridge.schemas.model.errors import SetupError

P = ParamSpec("P")
R = TypeVar("R")


def with_checked_types(function: Callable[P, R]) -> Callable[P, R]:
    """A function that takes no argument of another type than its annotation's: SetupError USAGE."""
    names = tuple(signature(function).parameters)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        kinds = _kinds_of(function)
        for name, value in (*zip(names, args, strict=False), *kwargs.items()):
            if name in kinds and not _fits(value, kinds[name]):
                needed = " or ".join(_NAMES.get(k, k.__name__) for k in kinds[name] if k is not NoneType)
                raise wrong_type(name, value, _UNITS.get(name) or needed)
        return function(*args, **kwargs)

    return call


def _fits(value: Any, kind: tuple[type, ...]) -> bool:
    if value is True or value is False:
        return bool in kind
    if kind == (Sequence,) and isinstance(value, str):
        return False
    return isinstance(value, kind) or (float in kind and isinstance(value, int))


def wrong_type(name: str, value: object, needed: str) -> SetupError:
    """The error of an argument that is of another type."""
    return SetupError("USAGE", details=f"{name} is of type {type(value).__name__}: {needed} is needed")


@cache
def _kinds_of(function: Callable[..., Any]) -> dict[str, tuple[type, ...]]:
    """The classes that an argument may be of, by its name; not of those that an object of any class can be."""
    kinds = dict[str, tuple[type, ...]]()
    own = {name: hint for name, hint in function.__annotations__.items() if name != "return"}
    hints = get_type_hints(SimpleNamespace(__annotations__=own, __globals__=function.__globals__))
    for hint in [hint for hint in hints.values() if get_origin(hint) is Unpack]:
        hints |= get_type_hints(get_args(hint)[0])
    for name, hint in hints.items():
        types = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        classes = tuple(str if get_origin(t) is Literal else get_origin(t) or t for t in types)
        if name not in _CHECKED_BELOW and all(
            isinstance(c, type) and not getattr(c, "_is_protocol", False) for c in classes
        ):
            kinds[name] = classes
    return kinds


_CHECKED_BELOW = ("key", "value", "event", "headers", "messages", "changes")
_NAMES: dict[type, str] = {
    str: "a text", int: "a whole number", float: "a number", bool: "true or false", Mapping: "an object with names",
    PathLike: "a path", Sequence: "a list of texts",
}  # fmt: skip
_UNITS = {"timestamp": "a whole number of milliseconds since 1970"}
