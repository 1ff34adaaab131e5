"""Reads titles and labels of a figure from the SVG that matplotlib writes with `svg.fonttype: none`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple
from xml.etree import ElementTree

_GROUP: Final = "{http://www.w3.org/2000/svg}g"
_TEXT: Final = "{http://www.w3.org/2000/svg}text"
_PATH: Final = "{http://www.w3.org/2000/svg}path"
_MOVE: Final = re.compile(r"translate\((\S+) (\S+)\)")
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?")


class AxesLabels(NamedTuple):
    """Texts of one pair of axes; empty if missing. `title`: the text above the frame."""

    title: str
    x: str
    y: str


class FigureLabels(NamedTuple):
    """Texts of a figure. `title`: title of the whole figure, or of its only axes."""

    title: str
    axes: tuple[AxesLabels, ...]

    @property
    def missing(self) -> list[str]:
        """Return the names of all missing texts."""
        found = [] if self.title else ["title of the figure"]
        for number, one in enumerate(self.axes, 1):
            found += [f"{name} of axes {number}" for name, text in one._asdict().items() if not text]
        return found if self.axes else [*found, "axes"]


def labels_of(svg: str) -> FigureLabels:
    """Return the titles and labels of an SVG figure. Raises ParseError if it is not XML."""
    root = ElementTree.fromstring(svg)
    figure = next((one for one in root.iter(_GROUP) if one.get("id") == "figure_1"), root)
    axes = tuple(map(_axes, _groups(figure, "axes_")))
    titles = [_text(group) for group in _groups(figure, "text_")]
    title = " ".join(titles) or (axes[0].title if len(axes) == 1 else "")
    return FigureLabels(title, axes)


def _axes(group: ElementTree.Element) -> AxesLabels:
    top = _top(group)
    above = [_text(one) for one in _groups(group, "text_") if _height(one) < top]
    return AxesLabels(" ".join(above), *(_label(one) for one in _both(group)))


def _both(axes: ElementTree.Element) -> Iterator[ElementTree.Element | None]:
    """Yield the groups of the horizontal and the vertical axis, which are numbered throughout the figure."""
    found = list(_groups(axes, "matplotlib.axis_"))
    for position in range(2):
        yield found[position] if position < len(found) else None


def _label(axis: ElementTree.Element | None) -> str:
    """Return the label of an axis; its ticks are groups of their own."""
    return "" if axis is None else " ".join(map(_text, _groups(axis, "text_")))


def _groups(parent: ElementTree.Element, prefix: str) -> Iterator[ElementTree.Element]:
    """Yield the groups directly in this one whose identifier starts with the prefix."""
    return (one for one in parent.findall(_GROUP) if (one.get("id") or "").startswith(prefix))


def _text(group: ElementTree.Element) -> str:
    return " ".join(" ".join(one.itertext()).strip() for one in group.iter(_TEXT)).strip()


def _height(group: ElementTree.Element) -> float:
    """Return the vertical position of a text; numbers grow downwards."""
    for text in group.iter(_TEXT):
        if moved := _MOVE.search(text.get("transform") or ""):
            return float(moved[2])
        return float(text.get("y") or "inf")
    return float("inf")


def _top(group: ElementTree.Element) -> float:
    """Return the vertical position of the upper end of the frame."""
    for patch in _groups(group, "patch_"):
        for path in patch.iter(_PATH):
            numbers = [float(one) for one in _NUMBER.findall(path.get("d") or "")]
            return min(numbers[1::2], default=0.0)
    return 0.0
