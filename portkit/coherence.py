"""A test for CUDA is not opened to other devices while the branch behind it still needs CUDA.

`if torch.cuda.is_available(): x = torch.cuda.FloatTensor(3)` works on a machine with another accelerator: it
takes the other branch.  Were only the test rewritten, that machine would fall into the CUDA branch.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from portkit.finding import Finding, Location, Span, Support
from portkit.rule import Context
from portkit.scopes import Bound, Tree

_HOLDS = (Support.MANUAL, Support.UNKNOWN)


def hold_back(found: list[Finding], opening: Collection[str], tree: Tree, ctx: Context) -> list[Finding]:
    """The findings of a unit, with each test whose branch stays bound to CUDA turned to `review`; the
    others say what in their branch must be rewritten with them.

    `opening` are the ids of the rules whose rewrite lets other devices through a test.
    """
    tests = [item for item in found if item.rule in opening and item.edits]
    inside = [item for item in found if _is_bound(item) and not _is_test(item, opening)]
    if not tests or not inside:
        return found
    held: dict[int, Finding] = {}
    needs: dict[int, dict[tuple[Location, str], None]] = {}
    for node in ast.walk(tree.module):
        if not isinstance(node, (ast.If, ast.IfExp)):
            continue
        behind = [item for item in inside if _within(item, _branch(node), ctx)]
        if not behind:
            continue
        spans = [ctx.span(part) for part in _sources(node.test, tree)]
        stuck = next((item for item in behind if item.support in _HOLDS), None)
        for item in tests:
            if _edits_in(item, spans):
                if stuck is not None and item.support is Support.AUTO:
                    held[id(item)] = stuck
                more = {other.sort_key: None for other in behind if other.edits and other is not item}
                needs.setdefault(id(item), {}).update(more)
    linked = [replace(item, needs=tuple(needs[id(item)])) if id(item) in needs else item for item in found]
    return [
        _reviewed(new, held[id(old)]) if id(old) in held else new
        for old, new in zip(found, linked, strict=True)
    ]


def _is_bound(item: Finding) -> bool:
    return item.support in _HOLDS or bool(item.edits and item.support is not Support.PORTABLE)


def _is_test(item: Finding, opening: Collection[str]) -> bool:
    """Whether a finding is a test for CUDA itself, and no use of CUDA."""
    uses = item.qualified_name is not None and not item.qualified_name.endswith(".is_available")
    return item.rule in opening and not uses


def _branch(node: ast.If | ast.IfExp) -> Sequence[ast.AST]:
    """What runs where there is CUDA."""
    negated = isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not)
    part = node.orelse if negated else node.body
    return part if isinstance(part, list) else [part]


def _within(finding: Finding, nodes: Sequence[ast.AST], ctx: Context) -> bool:
    place = (finding.location.line, finding.location.column)
    for node in nodes:
        first = (getattr(node, "lineno", 0), _column(node, "col_offset", ctx))
        last = (getattr(node, "end_lineno", 0) or 0, _column(node, "end_col_offset", ctx))
        if first <= place < last:
            return True
    return False


def _column(node: ast.AST, field: str, ctx: Context) -> int:
    """Column from 1, in characters."""
    span = ctx.span(node)
    offset = span.start if field == "col_offset" else span.end
    return offset - (ctx.text.rfind("\n", 0, offset) + 1) + 1


def _sources(test: ast.expr, tree: Tree, depth: int = 3) -> Iterator[ast.expr]:
    """A test, and the expressions that the flags in it (`use_cuda`) are assigned from."""
    yield test
    if depth == 0:
        return
    for name in ast.walk(test):
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
