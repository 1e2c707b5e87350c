"""Edits of expressions: replace, rename an attribute, wrap, give a decorator its parentheses."""

from __future__ import annotations

import ast
import io
import keyword
import tokenize

import libcst as cst

from portkit.applying import precedence
from portkit.applying.patch import Patch, closing, opening, replace
from portkit.applying.tree import Expression, Tree
from portkit.errors import ApplyError
from portkit.finding import CallDecorator, RenameAttribute, Replace, Span, Wrap
from portkit.scopes import walk


def replace_expression(tree: Tree, edit: Replace | CallDecorator) -> list[Patch]:
    """Replace one expression, or one other node (an import, a parameter), by new text."""
    span = edit.span
    if not tree.in_expression(span):
        return [replace_node(tree, span, edit.text)]
    expression = tree.expression(span)
    node = expression.node(span)
    text = fitted(expression, node, edit.text)
    start, end = span.start, span.end
    return [replace(start, end, spaced(tree.text, start, end, text))]


def replace_node(tree: Tree, span: Span, text: str) -> Patch:
    """Replace a node that is not an expression, as it is: the check of the whole result decides."""
    for node in walk(tree.module):
        if hasattr(node, "lineno") and tree.lines.span(node) == span:
            return replace(span.start, span.end, text)
    raise ApplyError("nothing that can be replaced stands at this place")


def rename_attribute(tree: Tree, edit: RenameAttribute) -> list[Patch]:
    """Change the last name of an attribute access."""
    if not edit.name.isidentifier() or keyword.iskeyword(edit.name):
        raise ApplyError(f"{edit.name!r} is not a name")
    expression = tree.expression(edit.span)
    node = expression.node(edit.span)
    if not isinstance(node, cst.Attribute):
        raise ApplyError("no attribute access stands at this place")
    name = expression.inner(node.attr)
    return [replace(name.start, name.end, edit.name)]


def wrap(tree: Tree, edit: Wrap) -> list[Patch]:
    """Put text before and after an expression, with parentheses where precedence asks for them."""
    span = edit.span
    expression = tree.expression(span)
    node = expression.node(span)
    inner = tree.text[span.start : span.end]
    before, after = edit.before, edit.after
    if not _stands(before, inner, after):
        before, after = f"{before}(", f"){after}"
        if not _stands(before[:-1], f"({inner})", after[1:]):
            raise ApplyError(f"{edit.before!r} and {edit.after!r} do not make an expression of this one")
    whole = fitted(expression, node, f"{before}{inner}{after}")
    if whole.startswith("(") and not f"{before}{inner}".startswith(whole[: len(before) + 1]):
        before, after = f"({before}", f"{after})"
    check_quotes(expression.quotes(node), before + after)
    size = span.end - span.start
    return [
        opening(span.start, spaced(tree.text, span.start, span.start, before), size),
        closing(span.end, spaced(tree.text, span.end, span.end, after), size),
    ]


def _stands(before: str, inner: str, after: str) -> bool:
    """Whether `inner` is one expression inside `before inner after`."""
    try:
        root, shift = precedence.parse(before + inner + after)
    except SyntaxError:
        return False
    text = f"({before}{inner}{after}\n)" if shift else before + inner + after
    start = len(before) + shift
    enclosed = precedence.is_enclosed(inner)
    node, _ = precedence.parse(inner)
    wanted = ast.unparse(node)
    for child in walk(root):
        if isinstance(child, ast.expr) and type(child) is type(node) and ast.unparse(child) == wanted:
            segment = ast.get_source_segment(text, child) or ""
            at = text.find(segment, start)
            if at == start or (enclosed and start < at <= start + len(inner)):
                return True
    return False


def fitted(expression: Expression, node: cst.CSTNode, text: str) -> str:
    """`text` with the parentheses and quotes that it needs where `node` stands."""
    try:
        bound = precedence.level(text)
    except (SyntaxError, ValueError):
        raise ApplyError(f"the rewrite {text!r} is not an expression") from None
    parent = expression.parent(node)
    enclosed = expression.is_enclosed(node)
    needed = precedence.LOOSE if enclosed else precedence.required(node, parent)
    loose = not enclosed and (bound < needed or bound == precedence.LOOSE)
    number = isinstance(parent, cst.Attribute) and not enclosed and precedence.is_number(text)
    same = expression.is_bare(node) and precedence.same_loose_kind(text, node)
    if number or (loose and not same):
        text = f"({text})"
    if isinstance(parent, cst.FormattedStringExpression) and text.startswith("{"):
        text = f"({text})"
    return requoted(text, expression.quotes(node))


def requoted(text: str, quotes: list[str]) -> str:
    """`text` without the quotes of the f-strings that it will stand in (needed before Python 3.12)."""
    for quote in quotes:
        if quote in text:
            text = _swap_quotes(text, quote)
    check_quotes(quotes, text)
    return text


def check_quotes(quotes: list[str], text: str) -> None:
    """Raise ApplyError where Python before 3.12 would not take `text` inside f-strings with these quotes."""
    if not quotes:
        return
    if any(quote in text for quote in quotes) or "\\" in text or "#" in text or "\n" in text:
        raise ApplyError("the rewrite can't be written inside this f-string")


def _swap_quotes(text: str, quote: str) -> str:
    """Write the plain string literals of an expression with the other kind of quote."""
    other = "'" if quote[0] == '"' else '"'
    out = text
    shift = 0
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return text
    for token in tokens:
        body = token.string
        simple = body[:1] == quote[0] and body[-1:] == quote[0] and not body.startswith(quote[0] * 3)
        if token.type != tokenize.STRING or token.start[0] != 1 or not simple:
            continue
        if other not in body and "\\" not in body:
            at = token.start[1] + shift
            out = f"{out[:at]}{other}{body[1:-1]}{other}{out[at + len(body) :]}"
    return out


def spaced(text: str, start: int, end: int, new: str) -> str:
    """`new` with a space where it would otherwise run into a word before or after it (`return(x)`)."""
    if new and start and _word(text[start - 1]) and _word(new[0]):
        new = f" {new}"
    if new and end < len(text) and _word(text[end]) and _word(new[-1]):
        new = f"{new} "
    return new


def _word(char: str) -> bool:
    return char.isalnum() or char == "_" or char in "\"'"
