"""A treemap of findings by folder: rectangles in percent of the drawing, the largest first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from portkit import coverage, effort
from portkit.finding import Finding, Support

_MOST = 24  # rectangles
_SMALLEST = 0.012  # share of the area below which a rectangle is put with others


@dataclass
class _Folder:
    """A folder, or a file, with the findings that are left below it."""

    path: str  # "" at the top; a folder ends with "/"
    findings: list[Finding] = field(default_factory=list)

    def parts(self) -> list[_Folder]:
        """What lies directly in it."""
        found: dict[str, _Folder] = {}
        for item in self.findings:
            head, slash, _ = item.location.path[len(self.path) :].partition("/")
            path = f"{self.path}{head}{slash}"
            found.setdefault(path, _Folder(path)).findings.append(item)
        return list(found.values())


def treemap(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """One rectangle a folder (or file), by the number of findings that are not portable yet."""
    left = [
        item for item in findings if coverage.is_dependency(item) and item.support is not Support.PORTABLE
    ]
    if not left:
        return []
    cells = sorted(_cells(left), key=lambda cell: (-len(cell.findings), cell.path))
    least = _SMALLEST * len(left)
    shown = [cell for cell in cells if len(cell.findings) >= least] or cells[:1]
    rest = [item for cell in cells[len(shown) :] for item in cell.findings]
    areas = [len(cell.findings) for cell in shown] + ([len(rest)] if rest else [])
    boxes = list(_squarified([area / len(left) for area in areas]))
    items = [(cell.path, cell.path, cell.findings) for cell in shown]
    if rest:
        items.append((f"{len(cells) - len(shown)} smaller", "", rest))
    return [_cell(name, path, found, box) for (name, path, found), box in zip(items, boxes, strict=True)]


def _cells(findings: list[Finding]) -> list[_Folder]:
    """The top, taken apart where most findings are, until there are enough rectangles.

    A folder stays whole where more than half of it would fall into parts that are too small to be shown.
    """
    least = _SMALLEST * len(findings)
    cells, whole = [_Folder("", findings)], set[str]()
    while True:
        folders = [cell for cell in cells if cell.path[-1:] in ("", "/") and cell.path not in whole]
        if not folders:
            return cells
        largest = max(folders, key=lambda cell: (len(cell.findings), cell.path))
        parts = largest.parts()
        large = [len(part.findings) for part in parts if len(part.findings) >= least]
        shown = sum(len(cell.findings) >= least for cell in cells)
        if largest.path and (shown - 1 + len(large) > _MOST or 2 * sum(large) < len(largest.findings)):
            whole.add(largest.path)
            continue
        cells.remove(largest)
        cells += parts


def _cell(
    name: str, path: str, findings: Sequence[Finding], box: tuple[float, float, float, float]
) -> dict[str, Any]:
    counts = Counter(item.support.value for item in findings)
    x, y, width, height = box
    return {
        "name": name,
        "path": path,
        "count": len(findings),
        "parts": [{"name": s.value, "count": counts[s.value]} for s in Support if counts[s.value]],
        "label": f"{name}: {', '.join(f'{n} {kind}' for kind, n in counts.most_common())}, "
        f"{effort.spoken(effort.left(findings).minutes)} of effort",
        "style": f"left:{x:.3f}%;top:{y:.3f}%;width:{width:.3f}%;height:{height:.3f}%",
        "tight": width < 9 or height < 13,
    }


def _squarified(areas: Sequence[float], shape: float = 2.4) -> Iterator[tuple[float, float, float, float]]:
    """Boxes (left, top, width, height in percent) of areas that sum up to 1 and fall, near to squares.

    `shape` is how many times as wide as high the drawing is.
    """
    x, y, width, height = 0.0, 0.0, shape, 1.0
    start = 0
    scaled = [area * shape for area in areas]
    while start < len(scaled):
        side = min(width, height)
        end = start + 1
        while end < len(scaled) and _worst(scaled[start : end + 1], side) <= _worst(scaled[start:end], side):
            end += 1
        row = scaled[start:end]
        depth = sum(row) / side
        at = 0.0
        for area in row:
            length = area / depth
            box = (x, y + at, depth, length) if width >= height else (x + at, y, length, depth)
            yield 100 * box[0] / shape, 100 * box[1], 100 * box[2] / shape, 100 * box[3]
            at += length
        if width >= height:
            x, width = x + depth, max(width - depth, 1e-9)
        else:
            y, height = y + depth, max(height - depth, 1e-9)
        start = end


def _worst(row: Sequence[float], side: float) -> float:
    """The worst ratio of the sides of boxes that are laid along a side."""
    depth = sum(row) / side
    return max(max(depth * depth / area, area / (depth * depth)) for area in row)
