"""Options, fields and keys of configuration that reach code in other files: `args.where`, `cfg["where"]`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from portkit.flow import Flow, looks_like_device
from portkit.scopes import Tree

# names that people give to what the command line or a configuration file was read into
_HOLDER = re.compile(
    r"(?:.*_)?(?:args?|opts?|options?|cfg|conf|config|configs|configuration|flags|hparams|hp|params|settings)",
    re.IGNORECASE,
)
_DEVICE = re.compile(r"cuda(?::\d+)?")


def is_holder(node: ast.AST) -> bool:
    """Whether an expression is by its name an object of settings: `args`, `self.cfg`, `cfg.train_config`."""
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return bool(name) and _HOLDER.fullmatch(name) is not None


def taken(tree: Tree, flow: Flow) -> Iterator[str]:
    """Settings that a file uses as a device; those whose name says device need nobody to say so."""
    for name, uses in tree.attributes.items():
        if looks_like_device(name):
            continue
        for use in uses:
            if isinstance(use.ctx, ast.Load) and is_holder(use.value) and flow.is_device_sink(use):
                yield name
                break


def offered(tree: Tree) -> Iterator[str]:
    """Options and fields whose default is a CUDA device; texts are wanted nodes where rules look at them."""
    for node in tree.wanted:
        if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            continue
        if not _DEVICE.fullmatch(node.value):
            continue
        parent = tree.parents.get(node)
        if isinstance(parent, ast.keyword) and parent.arg == "default":
            call = tree.parents.get(parent)
            if isinstance(call, ast.Call):
                yield from _option(call)
                parent = tree.parents.get(call)
        if isinstance(parent, (ast.Assign, ast.AnnAssign)):
            yield from _field(parent, tree)


def _option(call: ast.Call) -> Iterator[str]:
    """The attributes under which an option is kept."""
    for keyword in call.keywords:
        if keyword.arg == "dest" and isinstance(keyword.value, ast.Constant):
            yield str(keyword.value.value)
    for argument in call.args:
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            yield argument.value.lstrip("-").replace("-", "_")


def _field(statement: ast.Assign | ast.AnnAssign, tree: Tree) -> Iterator[str]:
    """The field of a class that a statement in its body assigns."""
    if isinstance(tree.parents.get(statement), ast.ClassDef):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        yield from (target.id for target in targets if isinstance(target, ast.Name))
