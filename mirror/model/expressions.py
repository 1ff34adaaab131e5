"""Regular expressions of users, matched in linear time with RE2.

RE2 (google-re2) compiles the expressions, so no expression can take exponential time. Look-around and
back-references, which RE2 does not support, are rejected.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from string import ascii_letters, digits
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakValueDictionary

from mirror.errors import InvalidRequest
from mirror.model import bounds

if TYPE_CHECKING:
    import re2

LONGEST: Final = 30_000
"""Maximum length of an expression in characters: enough for several hundred topic names."""

_MOST_MEMORY: Final = 1 << 20
"""Memory limit of a compiled expression in bytes. Expressions that need more match more slowly."""

_LITERAL: Final = re.compile(r"[A-Za-z0-9_-]*")
_MAY_BE_MISSING: Final = frozenset("*?{")
_MAY_REPEAT: Final = frozenset("*+{")
_MOST_ALTERNATIVES_TEXT: Final = 1_000_000
"""Maximum total length of the expressions that `single_alternatives` derives from an expression, in
characters."""
_CHANGES_MEANING: Final = re.compile(r"\(\?(?!:)|\\Q")
"""Matches syntax that changes the meaning of later text: flags, named groups, and quotations."""
_LONGEST_ADVICE: Final = 200
_DEEPEST: Final = 8
"""Maximum depth of nested groups in which `_beginnings` searches for prefixes."""
_MOST_AT_ONCE: Final = 16
"""Maximum number of prefixes with which a name is compared one by one."""
_ANYTHING: Final = frozenset(("",))
_UNSUPPORTED: Final = re.compile(r"\(\?<?[=!]|\\[1-9]|\(\?P=")
_NAMES_AT_ONCE: Final = 100
_LARGEST_AT_ONCE: Final = 2_000
"""Size limit, in RE2 instructions, of an expression that matches many names in one call.

A matching call blocks all other threads.
"""
_OPAQUE_ESCAPE: Final = re.compile(r"\\(?:[pPx]\{[^}]*\}|[pP].|x[0-9A-Fa-f]{2}|[0-7]{1,3}|[0-9A-Za-z])")
_GROUP_START: Final = re.compile(r"\(\?(?:P?<\w+>|[a-zA-Z-]*[:)])")
_REPETITION: Final = re.compile(r"\{[0-9]+(?:,[0-9]*)?\}")
_CLASS: Final = re.compile(r"\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]", re.DOTALL)
_NOT_LITERAL: Final = (_OPAQUE_ESCAPE, _GROUP_START, _REPETITION, _CLASS)
_MATCHING: Final = (_OPAQUE_ESCAPE, _CLASS)
"""Elements of `_NOT_LITERAL` that match one character."""
_WITHOUT_A_CHARACTER: Final = frozenset({"\\A", "\\z", "\\b", "\\B", "\\E"})
_OPERATORS: Final = frozenset("^$.|?*+()")
_TOPIC_CHARACTERS: Final = f"{ascii_letters}{digits}._-"
_SEPARATORS: Final = ",; \t\r\n"
"""Characters that separate topics in the lists of other tools."""
_MEANS_A_TEXT: Final = re.compile(r"\(\?|\n|\\[^dDwWsS.|_$^()\[\]{}*+?-]")
"""Matches syntax that prevents matching many names at once.

Flags, line breaks, and escapes that may match the start or end of the whole text.
"""


@cache
def _options(*, of_lines: bool) -> re2.Options:
    import re2

    options = re2.Options()
    options.max_mem = _MOST_MEMORY
    options.log_errors = False
    options.never_capture = True
    options.never_nl = of_lines
    return options


class Expression:
    """A compiled expression, which must match the whole topic name. Raises InvalidRequest.

    `label`: name of the field, for errors. `beginnings`: every matching name starts with one of these
    prefixes. `beginnings` contains the empty string if unknown.
    """

    __slots__ = ("__weakref__", "_is_small", "_lines", "_pattern", "_prefixes", "_source", "beginnings")

    def __init__(self, label: str, expression: object) -> None:
        import re2  # costs 2 MiB with its libraries, and workers of copies do not need it

        source = bounds.text(label, expression, LONGEST)
        try:
            self._pattern = re2.compile(source, _options(of_lines=False))
        except re2.error as error:
            raise InvalidRequest(
                f"{label} {bounds.shown(source)} is not a regular expression: {_reason(error)}",
                advice=_advice(source),
            ) from error
        self.beginnings = _beginnings(source)
        self._prefixes = tuple(self.beginnings) if len(self.beginnings) <= _MOST_AT_ONCE else ("",)
        self._source = source
        self._lines: re2._Regexp | None = None
        self._is_small = self._pattern.programsize <= _LARGEST_AT_ONCE and not _MEANS_A_TEXT.search(source)

    def _of_lines(self) -> re2._Regexp | None:
        """Return a pattern that matches many names in one call, or None if each needs its own call."""
        if self._lines is None and self._is_small:
            import re2

            self._lines = re2.compile(f"(?m)^(?:{self._source})$", _options(of_lines=True))
        return self._lines

    def matches(self, name: str) -> bool:
        """Return whether the whole name matches. Names that UTF-8 cannot encode do not match."""
        if not name.startswith(self._prefixes):  # rules out most names
            return False
        return self._pattern.fullmatch(name.encode(errors="surrogatepass")) is not None

    def choose(self, names: Iterable[str]) -> set[str]:
        """Return the names that the expression matches as a whole."""
        candidates = [name for name in names if name.startswith(self._prefixes)]
        lines_of = self._of_lines() if len(candidates) >= _NAMES_AT_ONCE else None
        if lines_of is None:
            return set(filter(self.matches, candidates))
        found: set[str] = set()
        for start in range(0, len(candidates), _NAMES_AT_ONCE):
            lines = "\n".join(candidates[start : start + _NAMES_AT_ONCE]).encode(errors="surrogatepass")
            taken = lines_of.findall(lines)
            found.update(name.decode(errors="surrogatepass") for name in taken)
            if (
                len(taken) > _NAMES_AT_ONCE // 4
            ):  # a match in the joined text costs more than matching one name
                found.update(filter(self.matches, candidates[start + _NAMES_AT_ONCE :]))
                break
        return found


_known: Final[WeakValueDictionary[str, Expression]] = WeakValueDictionary()


def expression_of(label: str, expression: object) -> Expression:
    """Return the shared `Expression` of a text, which is compiled only once."""
    known = _known.get(expression) if isinstance(expression, str) else None
    if known is None:
        known = Expression(label, expression)
        _known[str(expression)] = known
    return known


def split_look_ahead(expression: str) -> tuple[str, str]:
    """Split `^(?!test-).*` into an include and an exclude expression: `.*` and `(?:test-).*`.

    Both parts together select the same topics as the original expression. Any other expression is returned
    unchanged, with an empty exclude expression.
    """
    rest, ahead = expression.removeprefix("^"), []
    while rest.startswith("(?!"):
        end = next((at for at, char, depth in _structure(rest) if char == ")" and depth == 0), None)
        if end is None:
            return expression, ""
        ahead.append(rest[3:end])
        rest = rest[end + 1 :]
    is_exact = ahead and rest and rest[0] not in "*+?{" and "\\Q" not in expression
    if not is_exact or any(char == "|" and depth == 0 for _, char, depth in _structure(rest)):
        return expression, ""
    return rest, "|".join(f"(?:{text}).*" for text in ahead)


def joined_look_ahead(include: str, exclude: str) -> str:
    """Join include and exclude into one Java expression that selects the same topics.

    The function is the inverse of `split_look_ahead`.
    """
    written = f"^(?!{exclude.removeprefix('(?:').removesuffix(').*')}){include}"
    return written if split_look_ahead(written) == (include, exclude) else f"^(?!(?:{exclude})$)(?:{include})"


def _structure(expression: str) -> Iterator[tuple[int, str, int]]:
    """Yield each syntax character of an expression, with its position and its group depth.

    Escaped characters, and characters within a class, are skipped. A closing parenthesis has the depth of the
    enclosing group.
    """
    depth, at, in_class = 0, 0, False
    while at < len(expression):
        char = expression[at]
        if char == "\\":
            at += 2
            continue
        if in_class:
            in_class = char != "]"
        elif char == "[":
            in_class = True
            at += 1 + (expression[at + 1 : at + 2] == "^")
            at += expression[at : at + 1] == "]"
            continue
        else:
            depth += (char == "(") - (char == ")")
            yield at, char, depth
        at += 1


def single_alternatives(expression: str) -> Iterator[tuple[str, str]]:
    """Yield each alternative of an expression, with the expression that contains only this alternative.

    Alternatives within a repeated part are not separated, because one name can match several of them. Yields
    nothing for an expression with flags or quotations, or with too many alternatives.
    """
    found = () if _CHANGES_MEANING.search(expression) else tuple(_choices(expression))
    parts = [(start, end, cut) for start, end, cuts in found for cut in itertools.pairwise(cuts)]
    if sum(len(expression) - (end - start) for start, end, _ in parts) > _MOST_ALTERNATIVES_TEXT:
        return
    for start, end, (before, after) in parts:
        part = expression[before + 1 : after]
        if part.strip("^$"):
            yield part.strip("^$"), expression[:start] + part + expression[end:]


def _choices(expression: str) -> Iterator[tuple[int, int, Sequence[int]]]:
    """Yield each group with alternatives: its start, its end, and the positions of its `|`."""
    open_groups: list[tuple[int, list[int]]] = [(0, [])]
    closed: list[tuple[int, int, list[int]]] = []
    for at, char, _ in _structure(expression):
        if char == "(":
            start = at + (3 if expression.startswith("(?:", at) else 1)
            open_groups.append((start, []))
        elif char == "|":
            open_groups[-1][1].append(at)
        elif char == ")":
            start, bars = open_groups.pop()
            if expression[at + 1 : at + 2] in _MAY_REPEAT:
                closed = [group for group in closed if group[0] < start]
            elif bars:
                closed.append((start, at, bars))
    if open_groups[0][1]:
        closed.append((0, len(expression), open_groups[0][1]))
    for start, end, bars in closed:
        yield start, end, (start - 1, *bars, end)


def require_topic_characters(label: str, expression: str) -> None:
    """Check that an expression contains only characters that topic names can have. Raises InvalidRequest.

    Examples are a class or an escape, such as `[,;]` and `\x2c`, that matches no character of a topic name.
    """
    impossible = [part for part in _atoms(expression) if not part.is_possible]
    if not impossible:
        return
    raise InvalidRequest(
        f"{label} {bounds.shown(expression)} has {impossible[0].text!r}, which no topic name can contain",
        advice=_advice_without(expression, impossible),
    )


class _Atom(NamedTuple):
    """Part of an expression that matches exactly one character: a literal, a class or an escape."""

    at: int
    end: int
    text: str
    is_literal: bool

    @property
    def is_possible(self) -> bool:
        """True if the part matches a character that a topic name can contain."""
        if self.is_literal:
            return self.text in _TOPIC_CHARACTERS
        return self.text in _WITHOUT_A_CHARACTER or _matches_one_of(self.text, _TOPIC_CHARACTERS)

    @property
    def is_separator(self) -> bool:
        """True if the part matches a separator of topic lists."""
        return self.text in _SEPARATORS if self.is_literal else _matches_one_of(self.text, _SEPARATORS)


@lru_cache(1_024)
def _matches_one_of(part: str, characters: str) -> bool:
    """Return whether a part of an expression can match any of the characters.

    Returns True if the part is not a valid expression by itself.
    """
    import re2

    try:
        return bool(re2.compile(part, _options(of_lines=False)).findall(characters.encode()))
    except re2.error:
        return True


def _advice_without(expression: str, impossible: list[_Atom]) -> str:
    if not all(part.is_separator for part in impossible):
        return "topic names contain letters, digits, dot, underscore and dash; .* matches any text"
    starts = [0, *(part.end for part in impossible)]
    ends = [*(part.at for part in impossible), len(expression)]
    parts = (expression[start:end] for start, end in zip(starts, ends, strict=True))
    several = "|".join(part for piece in parts if (part := piece.rstrip("\\")))
    return f"separate topics with |, as in {re.sub('[|]+', '|', several)[:_LONGEST_ADVICE]}"


def _atoms(expression: str) -> Iterator[_Atom]:
    at, is_quoted = 0, False
    while at < len(expression):
        if expression.startswith("\\E" if is_quoted else "\\Q", at):
            at, is_quoted = at + 2, not is_quoted
            continue
        opaque = None if is_quoted else _opaque(expression, at)
        if opaque is not None:
            if opaque.re in _MATCHING:
                yield _Atom(at, opaque.end(), opaque[0], is_literal=False)
            at = opaque.end()
            continue
        if not is_quoted and expression[at] == "\\":
            at += 1
            yield _Atom(at, at + 1, expression[at], is_literal=True)
        elif is_quoted or expression[at] not in _OPERATORS:
            yield _Atom(at, at + 1, expression[at], is_literal=True)
        at += 1


def _opaque(expression: str, at: int) -> re.Match[str] | None:
    """Return the syntax element at a position if it contains no literal character, otherwise None."""
    return next((found for pattern in _NOT_LITERAL if (found := pattern.match(expression, at))), None)


def _reason(error: Exception) -> str:
    given = error.args[0] if error.args else ""
    sentence = given.decode(errors="replace") if isinstance(given, bytes) else str(given)
    return sentence[:200]


def _advice(expression: str) -> str:
    if _UNSUPPORTED.search(expression):
        return "look-around and back-references are not supported; list unwanted topics in exclude"
    return "write a list of topics as ^(orders|users)$"


def _beginnings(expression: str, depth: int = 0) -> frozenset[str]:
    """Return a set of prefixes of which every matching name has at least one. Comparing the prefixes excludes
    most names without RE2. Contains the empty string if no prefix is easy to find."""
    if depth > _DEEPEST or _CHANGES_MEANING.search(expression):
        return _ANYTHING
    ends = [at for at, char, level in _structure(expression) if char == "|" and level == 0]
    if ends:
        starts = [0, *(end + 1 for end in ends)]
        parts = zip(starts, [*ends, len(expression)], strict=True)
        return _joined(_beginnings(expression[start:end], depth + 1) for start, end in parts)
    rest = expression.removeprefix("^")
    if rest.startswith("("):
        close = next((at for at, char, level in _structure(rest) if char == ")" and level == 0), 0)
        if not close or rest[close + 1 : close + 2] in _MAY_BE_MISSING:
            return _ANYTHING
        return _beginnings(rest[1:close].removeprefix("?:"), depth + 1)
    found = _LITERAL.match(rest)
    assert found is not None
    following = rest[found.end() : found.end() + 1]
    return frozenset((found[0][:-1] if following in _MAY_BE_MISSING else found[0],))


def _joined(alternatives: Iterable[frozenset[str]]) -> frozenset[str]:
    found = frozenset[str]().union(*alternatives)
    return _ANYTHING if "" in found else found
