"""Python code in strings that names CUDA."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from portkit.finding import Finding, Phase, Support
from portkit.rule import Context, Rule
from portkit.scopes import walk

_CODE = re.compile(r"torch\.cuda\.\w+|\.cuda\(|torch\.device\(\s*['\"]cuda|device\s*=\s*['\"]cuda")
_RUNNERS = frozenset({"exec", "eval", "compile", "run_python", "run_code", "timeit", "Timer", "runsource"})
_RUN = frozenset(
    {"timeit.timeit", "timeit.repeat", "timeit.Timer", "torch.utils.benchmark.Timer", "cProfile.run"}
)


class CudaCodeInText(Rule):
    """Code in a string uses CUDA.

    What: strings that are run as Python (`exec`, `eval`, `timeit`, `python -c`) and hold `torch.cuda...` or
    `.cuda()`.
    Why: rewrites do not reach into strings, since these are put together and quoted in ways of their own.
    Instead: change the string by hand, or move the code into a function.
    Safety: nothing is rewritten. Examples in docstrings and in other text are no code that runs.
    """

    id = "PK333"
    name = "cuda_code_in_text"
    phase = Phase.FULL_MODEL
    minutes = 15
    triggers = (b"cuda",)

    def visit_Constant(self, node: ast.Constant, ctx: Context) -> Iterable[Finding]:
        if not isinstance(node.value, str) or not _CODE.search(node.value):
            return
        if not _runs(node, ctx) and not self._through_name(node, ctx):
            return
        yield ctx.finding(
            self,
            node,
            "Code in a string uses CUDA",
            support=Support.MANUAL,
            remedy="Change it by hand, or move it into a function: rewrites do not reach into strings.",
        )

    def _through_name(self, node: ast.Constant, ctx: Context) -> bool:
        """Whether a string is assigned to a name that is run somewhere in the file."""
        statement = ctx.parent(node)
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
            return False
        name = statement.targets[0].id
        *_, module = ctx.parents(node)
        return any(
            isinstance(item, ast.Name)
            and item.id == name
            and isinstance(item.ctx, ast.Load)
            and _runs(item, ctx)
            for item in walk(module)
        )


def _runs(node: ast.expr, ctx: Context) -> bool:
    """Whether an expression is handed to something that runs it as Python."""
    parent = ctx.parent(node)
    if isinstance(parent, (ast.List, ast.Tuple)):
        position = parent.elts.index(node)
        before = parent.elts[position - 1] if position else None
        return isinstance(before, ast.Constant) and before.value == "-c"
    if isinstance(parent, ast.keyword):
        parent = ctx.parent(parent)
    if not isinstance(parent, ast.Call):
        return False
    name = ctx.resolve(parent.func) or ""
    last = parent.func.attr if isinstance(parent.func, ast.Attribute) else getattr(parent.func, "id", "")
    return (
        name in _RUN or last in _RUNNERS - {"compile"} or (last == "compile" and not name.startswith("re."))
    )
