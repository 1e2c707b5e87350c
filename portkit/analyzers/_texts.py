"""Strings that a program hands to a shell, told from those that it shows to people."""

from __future__ import annotations

import ast
import re

from portkit.rule import Context

_RUNNERS = re.compile(
    r"(?:os\.(?:system|popen|exec\w*|spawn\w*)|subprocess\.\w+|commands\.\w+|sh|shell|run\w*|system|popen|Popen|call"
    r"|check_call|check_output|getoutput|getstatusoutput|execute\w*|exec_\w+|launch\w*|submit\w*|split)\Z"
)
_SPEAKERS = frozenset(
    {
        "print",
        "debug",
        "info",
        "warning",
        "warn",
        "error",
        "exception",
        "critical",
        "log",
        "write",
        "add_argument",
    }
    | {"echo", "secho", "fail", "skip", "skipif", "ArgumentParser", "abort", "exit"}
)
_NAMES = re.compile(
    r"(?:.*_)?(?:cmds?|commands?|cmdline|flags|script|shell|launcher|prefix|line|args|argv)(?:_.*)?\Z", re.I
)


def is_command(node: ast.expr, ctx: Context) -> bool:
    """Whether a string is run as a command: given to a function that runs it, or to a variable named so."""
    child: ast.AST = node
    for parent in ctx.parents(node):
        if isinstance(parent, ast.Call) and child is not parent.func:
            last = (
                parent.func.attr if isinstance(parent.func, ast.Attribute) else getattr(parent.func, "id", "")
            )
            name = ctx.resolve(parent.func) or last
            if last in _SPEAKERS or last.endswith(("Error", "Warning", "Exception")):
                return False
            if _RUNNERS.match(name) or _RUNNERS.match(last):
                return True
            if last not in ("join", "format", "append", "extend", "quote", "replace", "strip", "list"):
                return False
        elif isinstance(parent, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
            targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
            return any(_NAMES.match(_name(target)) for target in targets)
        elif isinstance(parent, ast.stmt):
            return False
        child = parent
    return False


def is_shown(node: ast.expr, ctx: Context, *, written: bool = True) -> bool:
    """Whether a string is shown to people: printed, logged, raised, or the text of a help option.

    `written`: whether what a program writes to a file counts as shown.
    """
    for parent in ctx.parents(node):
        if isinstance(parent, (ast.Raise, ast.Assert)):
            return True
        if isinstance(parent, ast.keyword) and parent.arg in (
            "help",
            "description",
            "msg",
            "message",
            "reason",
        ):
            return True
        if isinstance(parent, ast.Call):
            last = (
                parent.func.attr if isinstance(parent.func, ast.Attribute) else getattr(parent.func, "id", "")
            )
            if last == "write" and not written:
                return False
            if last in _SPEAKERS or last.endswith(("Error", "Warning", "Exception")):
                return True
        if isinstance(parent, ast.Expr) and parent.value is node:
            return True
        if isinstance(parent, ast.stmt):
            return False
    return False


def _name(target: ast.expr) -> str:
    if isinstance(target, ast.Name):
        return target.id
    if isinstance(target, ast.Attribute):
        return target.attr
    return ""
