"""Measure how close prose is to that of well-known libraries: `python scripts/voice.py [--max N] [PATH …]`.

Prints two figures for each path. `index`: occurrences per 10,000 words of phrases that idiomatic technical
English rarely uses; docstrings of 21 well-known libraries (one million words) have 14. `openers`: share of
docstrings that begin with a pronoun or conjunction, 0.0 to 1.5 % in those libraries. Reads docstrings, string
literals of eight words or more, and Markdown without generated references. Standard library only.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

OPENERS: Final = frozenset(
    [
        "what",
        "who",
        "whether",
        "those",
        "that",
        "of",
        "as",
        "where",
        "how",
        "whoever",
        "which",
        "so",
        "not",
        "with",
        "within",
        "by",
        "for",
        "in",
        "once",
        "no",
        "nobody",
        "everything",
        "everybody",
        "somebody",
        "something",
        "likewise",
        "also",
    ]
)
PHRASES: Final = (
    "what",
    "one that",
    "those that",
    "those of",
    "of it",
    "of them",
    "of which",
    "nothing is",
    "nothing of",
    "nobody",
    "somebody",
    "everybody",
    "whoever",
    "who is",
    "says",
    "is said",
    "said",
    "told",
    "asks",
    "asked for",
    "is asked",
    "known of",
    "is known",
    "not known",
    "as far as",
    "as it is",
    "as they are",
    "where it",
    "where that",
    "where there is",
    "none where",
    "is there",
    "is over",
    "goes on",
    "go on",
    "by itself",
    "of its own",
    "left out",
    "any more",
    "a person",
    "in hand",
    "and why",
    "is to be",
    "anew",
    "so many",
    "so long",
    "stands",
    "likewise",
    "the newest",
    "begins",
    "bears",
    "ails",
    "let go",
    "taken for",
    "the others",
    "all of it",
    "anew",
    "shall",
    "set aside",
    "in its own",
    "by their",
)
MOST_OPENERS_PERCENT: Final = 2.0
_PLACES: Final = [
    "mirror",
    "pmp",
    "assigner",
    "monitor",
    "api",
    "pinot",
    "headrace",
    "headrace_dev",
    "stack",
    "bench",
    "deploy",
    "scripts",
    "docs",
    "README.md",
    "CONTRIBUTING.md",
]
_SKIPPED: Final = frozenset({".venv", ".cache", ".git", "site", "__pycache__"})
GENERATED: Final = frozenset({"rest.md", "cli.md", "configuration.md", "errors.md", "metrics.md"})
_WORD: Final = re.compile(r"[a-z]+(?:'[a-z]+)?")


class Text(NamedTuple):
    """A docstring, a string or a line of Markdown."""

    place: str
    text: str
    is_docstring: bool


class Measurement(NamedTuple):
    """Figures of a file or folder. `per_10000_words`: index. `worst`: texts by density of the counted
    phrases, descending."""

    words: int
    per_10000_words: float
    openers_percent: float | None
    worst: list[tuple[float, Text]]


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case; code in backticks counts as one word."""
    return _WORD.findall(re.sub(r"`[^`]*`", " x ", text.lower()))


def count_phrases(words: list[str]) -> int:
    """Return how often the words contain any of the counted phrases."""
    joined = f" {' '.join(words)} "
    return sum(joined.count(f" {phrase} ") for phrase in PHRASES)


def texts_of_python(path: Path) -> Iterator[Text]:
    """Yield the docstrings and long string literals of a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            text = ast.get_docstring(node)
            if text and isinstance(first, ast.Expr):
                docstrings.add(id(first.value))
                yield Text(f"{path}:{first.lineno}", text, is_docstring=True)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in docstrings:
            continue
        if len(words_of(node.value)) >= 8:
            yield Text(f"{path}:{node.lineno}", node.value, is_docstring=False)


def texts_of_markdown(path: Path) -> Iterator[Text]:
    """Yield the lines of a page, without code."""
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for number, line in enumerate(text.splitlines(), 1):
        if len(words_of(line)) >= 4 and not line.startswith("    "):
            yield Text(f"{path}:{number}", line, is_docstring=False)


def texts_in(place: Path) -> Iterator[Text]:
    """Yield the texts of a file or folder."""
    for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
        if not _SKIPPED.isdisjoint(path.parts) or path.name in GENERATED:
            continue
        if path.suffix == ".py":
            yield from texts_of_python(path)
        elif path.suffix == ".md":
            yield from texts_of_markdown(path)


def measure(place: Path) -> Measurement:
    """Measure a file or folder."""
    total = found = documented = opened = 0
    worst = []
    for one in texts_in(place):
        words = words_of(one.text)
        count = count_phrases(words)
        total += len(words)
        found += count
        if one.is_docstring and words:
            documented += 1
            opened += words[0] in OPENERS
        if count:
            worst.append((count / (len(words) + 6), one))
    percent = 100 * opened / documented if documented else None
    worst.sort(key=lambda pair: -pair[0])
    return Measurement(total, 1e4 * found / max(1, total), percent, worst)


def main(arguments: list[str]) -> int:
    """Print the measurements; return 1 if any exceeds the limits."""
    parser = argparse.ArgumentParser(description="Measure how idiomatic the prose of files is.")
    parser.add_argument("places", nargs="*", type=Path, metavar="PATH")
    parser.add_argument("--worst", type=int, default=0, metavar="N", help="print the N worst texts")
    parser.add_argument(
        "--max", type=float, metavar="N", help="fail above this index, or above 2 %% of openers"
    )
    options = parser.parse_args(arguments)
    worst = []
    is_over = False
    for place in options.places or map(Path, _PLACES):
        found = measure(place)
        openers = "-" if found.openers_percent is None else f"{found.openers_percent:.1f} %"
        is_bad = options.max is not None and (
            found.per_10000_words > options.max or (found.openers_percent or 0.0) > MOST_OPENERS_PERCENT
        )
        note = "  over the limit: --worst 20 lists the worst texts" if is_bad else ""
        print(
            f"{place!s:16} index {found.per_10000_words:5.0f}  openers {openers:>7}  {found.words:7,} words{note}"
        )
        is_over |= is_bad
        worst += found.worst
    worst.sort(key=lambda pair: -pair[0])
    for _, text in worst[: options.worst]:
        print(f"{text.place}  {' '.join(text.text.split())[:160]}")
    return 1 if is_over else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
