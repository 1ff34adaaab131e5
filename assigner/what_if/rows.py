"""Reads a CSV file whose first line names the columns. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterator, Sequence

from mirror.errors import InvalidRequest
from mirror.model.bounds import shown
from mirror.wording import counted


def rows(
    text: str, needed: Sequence[str], known: Collection[str] | None = None
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield for each row its position, such as `line 2`, and a mapping of column to value, without
    surrounding blanks.

    Empty lines are skipped. `needed`: required columns; `known`: permitted columns, None for any. Raises
    InvalidRequest that names the column or the line.
    """
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        header = next(reader, [])
        if problem := _problem(header, needed, known):
            raise InvalidRequest(
                f"the first line must name columns: {problem}", advice=f"use {','.join(known or needed)}"
            )
        for fields in reader:
            if not fields:
                continue
            where = f"line {reader.line_num}"
            if len(fields) != len(header):
                raise InvalidRequest(f"{where}: expected {counted(len(header), 'field')}, got {len(fields)}")
            yield where, {name: field.strip() for name, field in zip(header, fields, strict=True)}
    except csv.Error as error:
        raise InvalidRequest(f"line {reader.line_num} is not valid CSV: {error}") from error


def _problem(header: Sequence[str], needed: Sequence[str], known: Collection[str] | None) -> str:
    for number, name in enumerate(header):
        if known is not None and name not in known:
            return f"unknown column {shown(name)}"
        if name in header[:number]:
            return f"duplicate column {shown(name)}"
    missing = [name for name in needed if name not in header]
    return f"{missing[0]} is missing" if missing else ""
