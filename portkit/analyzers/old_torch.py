"""Requirements that keep torch below the version that migrated code needs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from portkit.analyzers import _commands, _required
from portkit.finding import Finding, Phase, Span, Support
from portkit.rule import Context, Rule
from portkit.source import Kind

_NEEDED = (2, 6)
_NAMES = frozenset({"torch", "pytorch"})
_NAME = re.compile(r"^\s*torch(?=\s*(?:\[|[=<>!~;,]|$))")
_OPERATOR = r"(?:===?|[<>~!]=|[<>=^~])"
_TABLE = re.compile(r"\s*=\s*(?:\{[^}\n]*?\bversion\s*=\s*)?[\"'](?P<spec>[^\"'\n]*)")  # torch = "^2.1"
_LIST = re.compile(rf"(?:\[[^\]\n]*\])?\s*(?P<spec>(?:{_OPERATOR}\s*[\w.*+!-]+(?:\s*,\s*)?)*)")
_CLAUSE = re.compile(rf"(?P<operator>{_OPERATOR})\s*v?(?P<version>\d+(?:\.\d+)*)(?P<any>\.\*)?")


class OldTorch(Rule):
    """A version of torch is required that is too old for migrated code.

    What: `torch==2.1.0`, `torch<2`, `torch~=2.0.1`, `pytorch=1.13` in requirements, conda environments,
    pyproject.toml, Pipfile, setup.cfg and setup.py, and in commands that install.
    Why: `torch.accelerator`, which migrated code and its helpers call, exists from torch 2.6 on: under an
    older one every call of it is an AttributeError.
    Instead: `torch>=2.6`. Where the old version has to stay, migrate no further than the operator phase's
    Triton kernels and tensor types.
    Safety: nothing is rewritten: a newer torch may change the program in other ways, which only its own
    tests can tell.
    """

    id = "PK408"
    name = "old_torch"
    phase = Phase.FULL_MODEL
    minutes = 30
    triggers = (b"torch",)
    code_triggers = (b"install_requires", b"extras_require")
    text_kinds = frozenset({Kind.REQUIREMENTS, Kind.TOML, Kind.INI, *_commands.KINDS})

    def visit_text(self, ctx: Context) -> Iterable[Finding]:
        if ctx.path.endswith(".lock"):
            return
        seen: set[int] = set()
        for item in _required.required(ctx):
            if item.name.lower() not in _NAMES or item.source or item.span.start in seen:
                continue
            seen.add(item.span.start)
            rest = ctx.text[item.span.end :].partition("\n")[0]
            yield from self._found(item.span, _spec(rest), ctx)

    def visit_Call(self, node: ast.Call, ctx: Context) -> Iterable[Finding]:
        """`setup(install_requires=["torch==1.13"])`, with lists that the file gives a name."""
        for keyword in node.keywords:
            if keyword.arg not in _required.KEYWORDS:
                continue
            for item in _required.strings(keyword.value, node, ctx):
                match = _NAME.match(str(item.value))
                if match is not None:
                    yield from self._found(ctx.span(item), _spec(str(item.value)[match.end() :]), ctx)

    def _found(self, span: Span, spec: str, ctx: Context) -> Iterator[Finding]:
        if not any(_keeps_below(clause) for clause in _CLAUSE.finditer(spec)):
            return
        yield ctx.finding(
            self,
            span,
            f"torch{spec} has no torch.accelerator, which migrated code calls",
            support=Support.MANUAL,
            remedy="Require torch>=2.6, and run the program's tests with it before you migrate.",
        )


def _spec(rest: str) -> str:
    """The versions that are wanted, from what follows the name."""
    table = _TABLE.match(rest)
    if table is not None:  # of Poetry, where a bare version is that one
        return f"=={table['spec']}" if table["spec"][:1].isdigit() else table["spec"]
    listed = _LIST.match(rest)
    return listed["spec"].strip().rstrip(",") if listed is not None else ""


def _keeps_below(clause: re.Match[str]) -> bool:
    """Whether a clause admits no version from 2.6 on."""
    operator = clause["operator"]
    version = tuple(int(part) for part in clause["version"].split("."))
    if clause["any"] or operator == "=":  # conda's = takes whatever begins so
        return operator in ("=", "==", "===") and _all_below(version)
    if operator in ("==", "===", "<="):
        return version[:2] < _NEEDED
    if operator == "<":
        return version <= _NEEDED
    if operator == "~=":  # 2.1.0: below 2.2; 2.1: below 3
        return _all_below(version[:-1])
    if operator == "~":
        return _all_below(version[:2])
    return operator == "^" and _all_below(version[:1])


def _all_below(begin: tuple[int, ...]) -> bool:
    """Whether all versions that begin so are below 2.6."""
    return begin[:2] < _NEEDED[: len(begin)]
