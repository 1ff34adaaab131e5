"""Draw random sentences for a reading without context: `python -m scripts.sentences --seed N [--each 25]`.

Prints error messages, descriptions of settings and command options, sentences of docs, and docstrings, each kind
under a heading, and each sentence with its place. Give the list without the places to a reader who knows Kafka
but not this project, and rewrite each sentence that the reader must read twice. The same seed draws the same
sentences of the same sources. Standard library only.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from scripts.architecture import PACKAGES, ROOT, tree_of
from scripts.voice import GENERATED

LEAST_WORDS: Final = 5
_END: Final = re.compile(r"(?<=[.!?])\s+(?=[A-Z`])")
_LINK: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_LIST_MARK: Final = re.compile(r"^(?:[-*]|[0-9]+\.) +")


class Sentence(NamedTuple):
    """A sentence with its file and line."""

    place: str
    text: str


def sentences_of(text: str) -> Iterator[str]:
    """Yield the sentences of a text that have more than a few words."""
    for sentence in _END.split(" ".join(text.split())):
        if len(sentence.split()) >= LEAST_WORDS:
            yield sentence


def docs() -> Iterator[Sentence]:
    """Yield the sentences of handwritten documentation pages, and of their tables."""
    pages = [path for path in sorted((ROOT / "docs").rglob("*.md")) if path.name not in GENERATED]
    for path in [*pages, ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "tests/README.md"]:
        if "status" in path.parts:
            continue
        is_code = False
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            is_code ^= line.lstrip().startswith("```")
            if is_code or line.startswith(("    ", "#", "![", "<!--")) or "|--" in line:
                continue
            for cell in line.strip("| ").split(" | "):
                for sentence in sentences_of(_LIST_MARK.sub("", _LINK.sub(r"\1", cell)).replace("**", "")):
                    yield Sentence(f"{path.relative_to(ROOT)}:{number}", sentence)


def help_texts() -> Iterator[Sentence]:
    """Yield descriptions in the generated references of settings and commands."""
    for name in ("configuration.md", "cli.md"):
        path = ROOT / "docs" / name
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            text = line.rstrip("| ").rpartition(" | ")[2] if line.startswith("|") else line
            if not line.startswith(("    ", "#")):
                for sentence in sentences_of(text):
                    yield Sentence(f"docs/{name}:{number}", sentence)


def _trees() -> Iterator[tuple[str, ast.AST]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield str(path.relative_to(ROOT)), tree_of(path)


def docstrings() -> Iterator[Sentence]:
    """Yield sentences of docstrings, also of fields and constants."""
    for place, tree in _trees():
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                for sentence in sentences_of(node.value.value):
                    yield Sentence(f"{place}:{node.lineno}", sentence)


def _message(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else "{…}" for part in node.values)
        return "".join(map(str, parts))
    return ""


def errors() -> Iterator[Sentence]:
    """Yield messages of raised errors, each with its advice."""
    for place, tree in _trees():
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)):
                continue
            texts = [_message(value) for value in node.exc.args]
            texts += [_message(each.value) for each in node.exc.keywords if each.arg in ("advice", "detail")]
            text = "; ".join(part for part in texts if part)
            if len(text.split()) >= LEAST_WORDS:
                yield Sentence(f"{place}:{node.lineno}", text)


KINDS: Final = {"errors": errors, "help and settings": help_texts, "docs": docs, "docstrings": docstrings}


def main() -> None:
    """Print the drawn sentences of each kind."""
    parser = argparse.ArgumentParser(description="Draw sentences for a cold reading.")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--each", type=int, default=25, help="sentences of each kind")
    given = parser.parse_args()
    chooser = random.Random(given.seed)
    for kind, sentences in KINDS.items():
        print(f"## {kind}")
        for sentence in chooser.sample(sorted(set(sentences())), given.each):
            print(f"{sentence.place}\t{sentence.text}")


if __name__ == "__main__":
    main()
