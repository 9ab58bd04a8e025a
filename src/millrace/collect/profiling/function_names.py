"""Shorten names of functions so that people can read them and builds can be compared.

Types, copies of the code (``.isra.0``, ``.cold``) and library versions change between builds while
a function stays the same, so they are dropped: overloads, instances of a template and copies count
as one function.
"""

import ctypes
import functools
import re
from collections.abc import Callable

# Suffixes of GCC and Clang for a copy or a part of a function, and for a static one.
_COPIES = frozenset(
    ("isra", "part", "constprop", "cold", "lto_priv", "llvm", "localalias", "clone", "unlikely",
     "warm")
)  # fmt: skip
_THUNK = re.compile(
    r"^(?:(?:non-)?virtual thunk to |covariant return thunk to |transaction clone for )+"
)
_OPERATOR = re.compile(
    r"operator(?:\s?(?:\(\)|\[\]|->\*|->|<=>|<<=|>>=|<<|>>|<=|>=|<|>|[-+*/%^&|~!=,]+|\"\"\s?\w+)"
    r"|\s(?:(?:new|delete)\b(?:\[\])?|co_await\b))"
)
_CONVERSION = "operator "
_ANONYMOUS = "(anonymous namespace)"
_QUALIFIERS = re.compile(
    r"(?:\s(?:const|volatile|noexcept)\b|\s&&?|\[abi:\w+\]|\s?\[clone [^\[\]]*\])+(?=::|\s|$)"
)
_OF_THE_LIBRARY = "__cxx11::"  # the version of an interface, inside of std
# A server's program may give its functions names of any length; longer ones are only cut.
_LONGEST = 8192
_LONGEST_SHOWN = 1024
_CLOSES = {">": "<", ")": "("}

# Placeholders for text that must stay intact while a name is taken apart.
_KEPT_OPERATOR, _KEPT_SPACE = "\1", "\2"


def short(symbol: str) -> str:
    """Return a symbol's function without types and copies; as it is if it cannot be demangled."""
    name, _, version = symbol.partition("@")
    if not name:
        return symbol
    if version == "plt":
        return short(name) + "@plt"
    # The first character may be a dot that belongs to the name, as in `.plt`.
    name = name[0] + _without_copies(name[1:])
    if name.startswith("_Z"):
        name = demangled(name) or name
    if len(name) > _LONGEST:
        return name[:_LONGEST_SHOWN]
    return (_without_types(name).replace(_OF_THE_LIBRARY, "") or name)[:_LONGEST_SHOWN]


def _without_copies(name: str) -> str:
    """Return a name without the suffixes of copies and their numbers."""
    end = len(name)
    while (dot := name.rfind(".", 0, end)) >= 0:
        suffix = name[dot + 1 : end]
        if suffix not in _COPIES and not suffix.isdecimal():
            break
        end = dot
    return name[:end]


def demangled(symbol: str) -> str | None:
    """Return a mangled C++ name as C++ writes it; None for another name, or without a demangler."""
    demangle = _demangler()
    return None if demangle is None else demangle(symbol)


@functools.cache
def _demangler() -> Callable[[str], str | None] | None:
    """Return the demangler of libstdc++, if the host has it: many builds of perf lack one."""
    try:
        function, free = ctypes.CDLL("libstdc++.so.6").__cxa_demangle, ctypes.CDLL(None).free
    except (OSError, AttributeError):
        return None
    function.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    function.restype = ctypes.c_void_p
    free.argtypes, free.restype = [ctypes.c_void_p], None

    def demangle(symbol: str) -> str | None:
        made = function(symbol.encode(), None, None, None)
        if made is None:
            return None
        try:
            return ctypes.string_at(made).decode(errors="replace")
        finally:
            free(made)

    return demangle


def _without_types(name: str) -> str:
    """Return a demangled name without its parameters, template arguments and return type."""
    name = _THUNK.sub("", name)
    if not any(letter in name for letter in "<( ["):
        return name
    outer, operators = _outermost(name)
    outer = _QUALIFIERS.sub("", outer).rstrip()
    outer = outer.rpartition(" ")[2].lstrip("*&")  # the return type of a template comes first
    for operator in operators[len(operators) - outer.count(_KEPT_OPERATOR) :]:
        outer = outer.replace(_KEPT_OPERATOR, operator, 1)
    return outer.replace(_KEPT_SPACE, " ")


def _outermost(name: str, *, is_operator: bool = False) -> tuple[str, list[str]]:
    """Return the text outside of all brackets, and the operators that its placeholders replace.

    The type that an operator converts to has none.
    """
    kept: list[str] = []
    operators: list[str] = []
    opened: list[str] = []
    braces = 0
    at = 0
    while at < len(name):
        letter = name[at]
        if letter == "o" and not is_operator and (operator := _operator_at(name, at)):
            if not opened:
                kept.append(_KEPT_OPERATOR)
                operators.append(_without_arguments(operator))
            at += len(operator)
            continue
        if name.startswith(_ANONYMOUS, at):
            at += len(_ANONYMOUS)
            at += 2 * name.startswith("::", at)
            continue
        if letter in "<(":
            opened.append(letter)
        elif letter in _CLOSES:
            _close(opened, letter)
        elif not opened:
            braces += (letter == "{") - (letter == "}")
            kept.append(_KEPT_SPACE if letter == " " and braces > 0 else letter)
        at += 1
    return "".join(kept), operators


def _operator_at(name: str, at: int) -> str | None:
    """Return the name of the operator function at a position; a conversion includes its type."""
    if not name.startswith("operator", at) or (
        at and (name[at - 1].isalnum() or name[at - 1] == "_")
    ):
        return None
    if match := _OPERATOR.match(name, at):
        return match[0]
    if not name.startswith(_CONVERSION, at):
        return None
    opened: list[str] = []
    for end in range(at, len(name)):
        if name[end] == "(" and not opened:
            return name[at:end]
        if name[end] in "<(":
            opened.append(name[end])
        elif name[end] in _CLOSES:
            if not opened:
                return name[at:end]
            _close(opened, name[end])
    return name[at:]


def _close(opened: list[str], letter: str) -> None:
    """Drop the bracket that this one closes; a `>` that closes none is "greater" or an arrow."""
    if letter == ")":
        while opened and opened.pop() != "(":
            pass
    elif opened and opened[-1] == "<":
        opened.pop()


def _without_arguments(operator: str) -> str:
    """Return a conversion's name without template arguments, such as ``<int>``."""
    if _OPERATOR.fullmatch(operator):
        return operator
    converted = operator.removeprefix(_CONVERSION)
    return _CONVERSION + _outermost(converted, is_operator=True)[0].strip()
