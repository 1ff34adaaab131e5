"""Search for secrets in the files of the checkout, with the detectors and exceptions of `.secrets.baseline`.

The hook of detect-secrets passes each line to each detector by itself, which takes most of a minute. Here
each detector reads whole files, and only files with a report are left to the hook, whose filters only remove
reports.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, cast

from detect_secrets.filters.regex import should_exclude_file
from detect_secrets.plugins.keyword import DENYLIST, KeywordDetector
from detect_secrets.settings import get_plugins, transient_settings
from detect_secrets.transformers import get_transformed_file
from detect_secrets.types import NamedIO

_KEYWORD: Final = re.compile("|".join(DENYLIST), re.IGNORECASE)


def suspicious(root: Path, files: Iterable[str], baseline: Path) -> Iterator[str]:
    """Yield the files that a detector of the baseline reports, before any filter.

    A detector that finds a line finds it in the text too: a line feed is to all of them what the edge of a
    line is. Only the values of keywords may extend over lines, so lines with a keyword are passed one by one.
    """
    with transient_settings(json.loads(baseline.read_text(encoding="utf-8"))):
        detectors = get_plugins()
        of_texts = [detector for detector in detectors if not isinstance(detector, KeywordDetector)]
        of_lines = [detector for detector in detectors if isinstance(detector, KeywordDetector)]
        for name in files:
            if should_exclude_file(name):
                continue
            lines = [line.rstrip() for line in _lines_of(root / name)]
            keyed = [line for line in lines if _KEYWORD.search(line)]
            passed = [(detector, "\n".join(lines)) for detector in of_texts]
            passed += [(detector, line) for detector in of_lines for line in keyed]
            if any(detector.analyze_line(filename=name, line=text) for detector, text in passed):
                yield name


def _lines_of(file: Path) -> Iterator[str]:
    """Yield the lines as the hook reads them: those of the text or of what it means, then a second look."""
    with file.open(encoding="utf-8") as opened:
        text = cast(NamedIO, opened)
        try:
            yield from get_transformed_file(text) or text.readlines()
        except UnicodeDecodeError:
            return
        text.seek(0)
        yield from get_transformed_file(text, use_eager_transformers=True) or ()
