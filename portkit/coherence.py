"""A test for CUDA is not opened to other devices while the branch behind it still needs CUDA.

`if torch.cuda.is_available(): x = torch.cuda.FloatTensor(3)` works on a machine with another accelerator: it
takes the other branch.  Were only the test rewritten, that machine would fall into the CUDA branch.
"""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from portkit import branches
from portkit.context import LINE_END
from portkit.finding import DropStatement, Finding, Location, Span, Support
from portkit.rule import Context
from portkit.scopes import Bound, Tree, walk

_HOLDS = (Support.MANUAL, Support.UNKNOWN)
_STAYS = (*_HOLDS, Support.REVIEW)


def hold_back(found: list[Finding], opening: Collection[str], tree: Tree, ctx: Context) -> list[Finding]:
    """The findings of a unit, with each test whose branch stays bound to CUDA turned to `review`; the
    others say what in their branch must be rewritten with them.

    `opening` are the ids of the rules whose rewrite lets other devices through a test.
    """
    tests = [item for item in found if item.rule in opening and item.edits]
    found = _kept_apart(found, tests, tree, ctx) if tests else found
    found = _kept_together(found, opening, tree, ctx) if tests else found
    tests = [item for item in found if item.rule in opening and item.edits]
    inside = [item for item in found if _is_bound(item) and not _is_test(item, opening)]
    if not tests or not inside:
        return _agree(found, opening)
    held: dict[int, Finding] = {}
    needs: dict[int, dict[tuple[Location, str], None]] = {}
    placed = _Places(inside, ctx)
    for node in tree.nodes():
        for test, branch in branches.guards(node, ctx):
            behind = placed.within(branch)
            if not behind:
                continue
            told = [node.msg] if isinstance(node, ast.Assert) and node.msg else []
            spans = [ctx.span(part) for part in (*_sources(test, tree), *told)]
            stuck = next((item for item in behind if item.support in _HOLDS), None)
            for item in tests:
                if _edits_in(item, spans):
                    if stuck is not None and item.support is Support.AUTO:
                        held[id(item)] = stuck
                    if isinstance(node, ast.Assert) or _is_lifted(item):
                        continue  # a refusal: who got past it goes on as before
                    more = {other.sort_key: None for other in behind if other.edits and other is not item}
                    needs.setdefault(id(item), {}).update(more)
    linked = [replace(item, needs=tuple(needs[id(item)])) if id(item) in needs else item for item in found]
    reviewed = [
        _reviewed(new, held[id(old)]) if id(old) in held else new
        for old, new in zip(found, linked, strict=True)
    ]
    return _agree(reviewed, opening)


def _agree(found: list[Finding], opening: Collection[str]) -> list[Finding]:
    """Tests for a device need a review where others of their function stay, which they would contradict."""
    kept: dict[tuple[str, str], int] = {}
    for item in found:
        if item.rule in opening and item.scope and item.support is Support.MANUAL and _is_about_device(item):
            kept.setdefault((item.rule, item.scope), item.location.line)
    return [
        replace(
            item,
            support=Support.REVIEW,
            note=f"Another test in this function, in line {kept[item.rule, item.scope]}, stays as it is: "
            "another accelerator would take one branch here and the other there.",
        )
        if item.support is Support.AUTO and (item.rule, item.scope) in kept and _is_about_device(item)
        else item
        for item in found
    ]


def _is_about_device(item: Finding) -> bool:
    return item.qualified_name is None


def _kept_apart(found: list[Finding], tests: list[Finding], tree: Tree, ctx: Context) -> list[Finding]:
    """The findings; tests behind which other devices have branches of their own are turned to `review`."""
    notes: dict[int, str] = {}
    for node in tree.nodes():
        if (
            not isinstance(node, (ast.If, ast.IfExp))
            or not node.orelse
            or True not in branches.senses(node.test)
        ):
            continue
        other = branches.diverted(node)
        spans = [ctx.span(part) for part in _sources(node.test, tree)]
        for item in tests if other is not None or branches.lists_devices(node) else ():
            if item.support is not Support.AUTO or not _edits_in(item, spans):
                continue
            if other is not None:
                notes[id(item)] = (
                    f"The branch in line {other.lineno} is for another accelerator, "
                    "which would now take this one."
                )
            elif not (item.qualified_name or "").endswith(".is_available"):
                notes[id(item)] = (
                    "The last branch is for devices that are not expected; they would now take this one."
                )
    return [
        replace(item, support=Support.REVIEW, note=f"{item.note} {notes[id(item)]}".strip())
        if id(item) in notes
        else item
        for item in found
    ]


def _kept_together(found: list[Finding], opening: Collection[str], tree: Tree, ctx: Context) -> list[Finding]:
    """The findings; `not torch.cuda.is_available()` is turned to `review` where `device == "cuda"` beside it
    stays: on another accelerator, a program that was asked for CUDA would no longer fall back."""
    stays = [i for i in found if i.rule in opening and _is_about_device(i) and i.support in _STAYS]
    asks = [
        i for i in found if i.support is Support.AUTO and (i.qualified_name or "").endswith(".is_available")
    ]
    if not stays or not asks:
        return found
    placed = _Places(stays, ctx)
    lines: dict[int, int] = {}
    for node in walk(tree.module):
        if isinstance(node, ast.BoolOp) and (beside := placed.within([node])):
            lines.update((id(i), beside[0].location.line) for i in asks if _edits_in(i, [ctx.span(node)]))
    note = "The test for CUDA beside it, in line {}, stays as it is."
    return [
        replace(i, support=Support.REVIEW, note=f"{i.note} {note.format(lines[id(i)])}".strip())
        if id(i) in lines
        else i
        for i in found
    ]


def _is_bound(item: Finding) -> bool:
    return item.support in _HOLDS or bool(item.edits and item.support is not Support.PORTABLE)


def _is_lifted(item: Finding) -> bool:
    return any(isinstance(edit, DropStatement) for edit in item.edits)


def _is_test(item: Finding, opening: Collection[str]) -> bool:
    """Whether a finding is a test for CUDA itself, and no use of CUDA."""
    uses = item.qualified_name is not None and not item.qualified_name.endswith(".is_available")
    return item.rule in opening and not uses


class _Places:
    """Findings in the order of their places, so that those of a branch are found at once."""

    def __init__(self, findings: Sequence[Finding], ctx: Context) -> None:
        starts = [0, *(match.end() for match in LINE_END.finditer(ctx.text))]
        offsets = [starts[item.location.line - 1] + item.location.column - 1 for item in findings]
        order = sorted(range(len(findings)), key=lambda k: offsets[k])
        self.findings = [findings[k] for k in order]
        self.offsets = [offsets[k] for k in order]
        self.ctx = ctx

    def within(self, nodes: Sequence[ast.AST]) -> list[Finding]:
        """The findings that begin inside any of the nodes."""
        found: set[int] = set()
        for span in map(self.ctx.span, nodes):
            found.update(range(bisect_left(self.offsets, span.start), bisect_left(self.offsets, span.end)))
        return [self.findings[k] for k in sorted(found)]


def _sources(test: ast.expr, tree: Tree, depth: int = 3) -> Iterator[ast.expr]:
    """A test, and the expressions that the flags in it (`use_cuda`) are assigned from."""
    yield test
    if depth == 0:
        return
    for name in walk(test):
        if isinstance(name, ast.Name):
            for binding in tree.bindings(name.id, name):
                if binding.how is Bound.VALUE and binding.value is not None:
                    yield from _sources(binding.value, tree, depth - 1)


def _edits_in(finding: Finding, spans: Sequence[Span]) -> bool:
    changed = [edit.span for edit in finding.edits if hasattr(edit, "span")]
    return any(span.start <= item.start and item.end <= span.end for item in changed for span in spans)


def _reviewed(finding: Finding, reason: Finding) -> Finding:
    note = (
        f"The branch behind this test still needs CUDA ({reason.rule} in line {reason.location.line}): "
        "with another accelerator the program would now take it."
    )
    return replace(finding, support=Support.REVIEW, note=f"{finding.note} {note}".strip())
