"""Names that people give to switches and counts of GPUs: `--no-cuda`, `args.use_gpu`, `num_gpus=2`."""

from __future__ import annotations

import ast
import re
from functools import lru_cache

from portkit.rule import Context
from portkit.scopes import walk

SWITCH = re.compile(r"(?:no|use|with|enable|disable|on|is|has|want)?_?(?:cuda|gpu)", re.I)
COUNT = re.compile(
    r"(?:n|num|ngpus?|number|nr|max|total|n_gpu)?_?(?:of_)?gpus?(?:_per_(?:node|trial|worker|task|machine|host)|_num"
    r"|_count|_ids?|_idx|_index|_list|_devices?|_id_list)?|cuda_?(?:devices?|device_ids?|ids?)|ngpus?(?:_per_node)?",
    re.I,
)
_OPTIONS = frozenset({"add_argument", "option", "Option", "add_option", "argument"})
_HOLDERS = re.compile(
    r"(?:.*_)?(?:args?|opts?|options?|config|configs|cfg|conf|flags?|params?|hparams|hps|hp|parsed|settings)\Z",
    re.I,
)


def is_switch(name: str) -> bool:
    """Whether a name says that CUDA is used or not: cuda, no_cuda, use_gpu."""
    return SWITCH.fullmatch(name.strip("-_").replace("-", "_")) is not None


def is_count(name: str) -> bool:
    """Whether a name says which GPUs are used, or how many: gpus, gpu_ids, num_gpus."""
    return COUNT.fullmatch(name.strip("-_").replace("-", "_")) is not None


def is_option(call: ast.Call) -> bool:
    """Whether a call declares a command-line option."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return name in _OPTIONS or name.startswith("DEFINE_")


def is_holder(node: ast.expr) -> bool:
    """Whether an expression is by its name a set of options: args, self.cfg, config["train"]."""
    if isinstance(node, ast.Name):
        return _HOLDERS.match(node.id) is not None
    if isinstance(node, ast.Attribute):
        return _HOLDERS.match(node.attr) is not None or is_holder(node.value)
    return isinstance(node, ast.Subscript) and is_holder(node.value)


def is_flag(node: ast.Attribute, ctx: Context) -> bool:
    """Whether an attribute such as `.cuda` is a truth value, not the method: by its owner, use or making."""
    return is_holder(node.value) or _is_tested(node, ctx) or _is_stored(node, ctx)


def _is_tested(node: ast.AST, ctx: Context) -> bool:
    """Whether an attribute stands where a truth value is wanted, which a method never is."""
    parent = ctx.parent(node)
    if isinstance(parent, (ast.If, ast.IfExp, ast.While, ast.Assert)):
        return parent.test is node
    return isinstance(parent, ast.BoolOp) or (
        isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not)
    )


def _is_stored(node: ast.Attribute, ctx: Context) -> bool:
    *_, module = ctx.parents(node)
    return node.attr in _stored(module)


@lru_cache(maxsize=4)
def _stored(module: ast.AST) -> frozenset[str]:
    """Attributes that the module assigns: `self.cuda = ...`, or a field of a class."""
    found = set()
    for item in walk(module):
        if isinstance(item, ast.Attribute) and isinstance(item.ctx, ast.Store):
            found.add(item.attr)
        elif isinstance(item, ast.ClassDef):
            found |= {
                field.target.id
                for field in item.body
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
            }
    return frozenset(found)
