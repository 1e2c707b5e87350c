"""Where a string that names a CUDA device goes: into a device, somewhere else, or nobody knows where."""

from __future__ import annotations

import ast
from enum import Enum

from portkit import branches
from portkit.rewriters import _devices, _index, _sites
from portkit.rule import Context


class Goal(Enum):
    """What the place of a string expects."""

    DEVICE = "device"  # a torch.device will do
    TEXT = "text"  # a device, and the program may treat it as a string
    CHOICES = "choices"  # an element of the `choices` of a command-line option
    KERNEL = "kernel"  # the device type that a kernel is registered for
    PARSED = "parsed"  # an argument of a method that takes strings apart
    SEVERAL = "several"  # one of several devices in a list
    WAY = "way"  # the name of one of several ways to compute, as far as the name it is kept under tells
    UNKNOWN = "unknown"
    ELSEWHERE = "elsewhere"  # another rule's, or no value at all


# torch callables whose first positional argument is a device
FIRST = {
    "torch.Generator": Goal.DEVICE,
    "torch.set_default_device": Goal.DEVICE,
    "torch.cuda.set_device": Goal.DEVICE,
    "torch.cuda.device": Goal.DEVICE,
    "torch.cuda.synchronize": Goal.DEVICE,
    "torch.cuda.get_device_name": Goal.DEVICE,
    "torch.cuda.get_device_properties": Goal.DEVICE,
    "torch.cuda.memory_allocated": Goal.DEVICE,
    "torch.cuda.max_memory_allocated": Goal.DEVICE,
    "torch.cuda.mem_get_info": Goal.DEVICE,
    "torch.cuda.reset_peak_memory_stats": Goal.DEVICE,
    "torch.get_device_module": Goal.TEXT,
    "torch.distributed.device_mesh.init_device_mesh": Goal.TEXT,
    "torch.distributed.init_device_mesh": Goal.TEXT,
    "torch.get_autocast_dtype": Goal.TEXT,
    "torch.is_autocast_enabled": Goal.TEXT,
}
_OWN_RULE = frozenset(
    {"torch.device", "torch.autocast", "torch.amp.autocast", "torch.amp.GradScaler", "torch.load"}
)
_CASTS = frozenset({"torch.autocast", "torch.amp.autocast"})
_PARSERS = frozenset(
    {"replace", "split", "strip", "lstrip", "rstrip", "removeprefix", "partition", "index", "find"}
)
_TALK = frozenset(
    {
        "print",
        "debug",
        "info",
        "warning",
        "warn",
        "error",
        "exception",
        "log",
        "write",
        "add_scalar",
        "append_text",
    }
)
_PATHS = ("os.path.", "pathlib.", "posixpath.", "urllib.parse.", "shutil.", "glob.")
_REFLECTION = frozenset({"getattr", "hasattr", "setattr", "delattr", "isinstance"})


def goal(node: ast.expr, ctx: Context) -> Goal:
    """What the place where a string stands expects of it."""
    child: ast.AST = node
    for parent in ctx.parents(node):
        if isinstance(parent, ast.IfExp):
            if (
                child is parent.test
                or _devices.choice(parent, ctx) is not None
                or substring(parent, ctx) is not None
            ):
                return Goal.ELSEWHERE
        elif isinstance(parent, ast.NamedExpr) and _devices.is_device_name(
            _devices.identifier(parent.target)
        ):
            return Goal.TEXT
        elif not isinstance(parent, (ast.BoolOp, ast.NamedExpr)):
            return _place(node, child, parent, ctx)
        child = parent
    return Goal.ELSEWHERE


def _place(node: ast.expr, child: ast.AST, parent: ast.AST, ctx: Context) -> Goal:
    """`child` is the whole value, `node` the string in it, `parent` the syntax that holds the value."""
    if isinstance(parent, ast.keyword):
        return _keyword(node, child, parent, ctx)
    if isinstance(parent, ast.Call):
        return _positional(node, child, parent, ctx)
    if isinstance(parent, (ast.Assign, ast.AnnAssign, ast.arguments, ast.Return)):
        return _named(holders(child, parent, ctx), node, ctx)
    if isinstance(parent, ast.Dict):
        return _entry(node, child, parent, ctx)
    if isinstance(parent, (ast.List, ast.Tuple, ast.Set)):
        return _element(node, child, parent, ctx)
    if isinstance(parent, (ast.ListComp, ast.SetComp, ast.GeneratorExp)) and child is parent.elt:
        return _made(parent, node, ctx)
    if isinstance(parent, ast.Lambda) and child is parent.body:
        return _made(parent, node, ctx)
    if isinstance(parent, (ast.BinOp, ast.Subscript)):
        put_together = isinstance(parent, ast.BinOp) and not isinstance(parent.op, ast.Div)  # no path
        return Goal.UNKNOWN if put_together else Goal.ELSEWHERE
    return Goal.ELSEWHERE


def _made(maker: ast.expr, node: ast.expr, ctx: Context) -> Goal:
    """What is expected of the elements of a comprehension, or of the result of a lambda."""
    outer = ctx.parent(maker)
    names = (
        [outer.arg or ""] if isinstance(outer, ast.keyword) else holders(maker, outer, ctx) if outer else []
    )
    if isinstance(outer, ast.keyword) and outer.arg == "default_factory":
        field = ctx.parent(outer)
        holder = ctx.parent(field) if field is not None else None
        names = holders(field, holder, ctx) if field is not None and holder is not None else []
    if any(_devices.is_device_name(name) or name.lower().startswith("device") for name in names):
        return Goal.TEXT
    return Goal.TEXT if ctx.is_device_sink(node) else Goal.UNKNOWN


def _of_own_rule(node: ast.expr, child: ast.AST) -> Goal:
    """The rule of that callee replaces the string where it is the whole argument, not a branch of it."""
    return Goal.ELSEWHERE if child is node else Goal.TEXT


def _named(names: list[str], node: ast.expr, ctx: Context) -> Goal:
    if any(_devices.is_device_name(name) for name in names) or ctx.is_device_sink(node):
        return Goal.TEXT
    return Goal.WAY if any(map(_devices.is_implementation_name, names)) else Goal.UNKNOWN


def _keyword(node: ast.expr, child: ast.AST, keyword: ast.keyword, ctx: Context) -> Goal:
    call = ctx.parent(keyword)
    name = keyword.arg or ""
    if not isinstance(call, ast.Call) or name in ("dest", "help", "device_types"):
        return Goal.KERNEL if name == "device_types" else Goal.ELSEWHERE
    if name == "map_location":
        return _of_own_rule(node, child)
    callee = ctx.resolve(call.func) or ""
    if is_option(call):
        known = is_device_option(call) or ctx.is_device_sink(node)
        return Goal.TEXT if name in ("default", "const") and known else Goal.UNKNOWN
    if callee.startswith("torch.library."):
        return Goal.KERNEL
    if callee in _OWN_RULE and name in ("type", "device_type", "device"):
        return _of_own_rule(node, child)
    if name in ("device", "out_device") and callee.startswith("torch."):
        return Goal.DEVICE
    if name == "device" and isinstance(call.func, ast.Attribute) and call.func.attr == "to":
        return Goal.DEVICE
    return _named([name, "device" if name == "device_map" else ""], node, ctx)


def _positional(node: ast.expr, child: ast.AST, call: ast.Call, ctx: Context) -> Goal:
    callee = ctx.resolve(call.func) or ""
    last = callee.rpartition(".")[2] or _devices.identifier(call.func)
    first = bool(call.args) and call.args[0] is child
    if last in ("getattr", "setattr") and len(call.args) == 3 and child is call.args[2]:
        key = _word(call.args[1]) or ""
        return _named([key], node, ctx)
    if last in _TALK or last in _REFLECTION or child is call.func:
        return Goal.ELSEWHERE
    if callee in _OWN_RULE:
        return _of_own_rule(node, child)
    if callee.startswith(_PATHS):
        return Goal.ELSEWHERE
    if first and _CASTS & _chosen(call.func, ctx):
        return Goal.TEXT
    if callee == "functools.partial" and call.args[1:2] == [child]:
        bound = ctx.resolve(call.args[0]) or ""
        return FIRST.get(bound, Goal.TEXT) if bound in FIRST or bound in _OWN_RULE else Goal.UNKNOWN
    if callee.startswith("torch.library.") or last == "register_kernel":
        return Goal.KERNEL
    if first and callee in FIRST:
        return FIRST[callee]
    if isinstance(call.func, ast.Attribute):
        if call.func.attr == "to" and first:
            return Goal.DEVICE
        if call.func.attr in ("startswith", "endswith"):
            return Goal.ELSEWHERE
        if call.func.attr in _PARSERS:
            return Goal.PARSED
        if call.func.attr == "append" and _devices.is_device_name(_devices.identifier(call.func.value)):
            return Goal.TEXT
    return _named([_own_parameter(call, child, ctx)], node, ctx)


def _chosen(callee: ast.expr, ctx: Context) -> set[str]:
    """What a callee may be that a condition chose: `scope = autocast if mixed else nullcontext`."""
    name = _devices.identifier(callee) if isinstance(callee, ast.Name) else ""
    todo = [callee, *_index.of(callee, ctx).values.get(name, ())]
    found: set[str] = set()
    while todo:
        value = todo.pop()
        if isinstance(value, ast.IfExp):
            todo += [value.body, value.orelse]
        else:
            found.add(ctx.resolve(value) or "")
    return found


def _own_parameter(call: ast.Call, child: ast.AST, ctx: Context) -> str:
    """Name of the parameter that a positional argument fills, for functions of the same file."""
    if not isinstance(call.func, ast.Name) or child not in call.args:
        return ""
    *_, module = ctx.parents(call)
    position = call.args.index(child)
    for item in getattr(module, "body", []):
        if isinstance(item, ast.FunctionDef) and item.name == call.func.id:
            names = [a.arg for a in (*item.args.posonlyargs, *item.args.args)]
            return names[position] if position < len(names) else ""
    return ""


def holders(child: ast.AST, parent: ast.AST, ctx: Context) -> list[str]:
    """Names under which a value is kept: of variables, a parameter, a dictionary key, or the function."""
    if isinstance(parent, ast.Assign):
        return [_devices.identifier(target) for target in parent.targets]
    if isinstance(parent, (ast.AnnAssign, ast.NamedExpr)):
        return [_devices.identifier(parent.target)]
    if isinstance(parent, ast.arguments):
        return [_parameter(parent, child)]
    if isinstance(parent, ast.Return):
        return [_function(parent, ctx)]
    if isinstance(parent, ast.Dict) and child in parent.values:
        key = parent.keys[parent.values.index(child)]
        return [key.value] if isinstance(key, ast.Constant) and isinstance(key.value, str) else []
    return []


def _parameter(arguments: ast.arguments, default: ast.AST) -> str:
    plain = [*arguments.posonlyargs, *arguments.args]
    if default in arguments.defaults:
        position = len(plain) - len(arguments.defaults) + arguments.defaults.index(default)
        return plain[position].arg
    if default in arguments.kw_defaults:
        return arguments.kwonlyargs[arguments.kw_defaults.index(default)].arg
    return ""


def _function(node: ast.AST, ctx: Context) -> str:
    for parent in ctx.parents(node):
        if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return parent.name
    return ""


def _entry(node: ast.expr, child: ast.AST, holder: ast.Dict, ctx: Context) -> Goal:
    if child not in holder.values:
        return Goal.ELSEWHERE  # a key is data
    key = holder.keys[holder.values.index(child)]
    if key is not None and _devices.spelling(key, ctx) is not None:
        return Goal.TEXT  # a map_location: storage tag → device
    return _named(holders(child, holder, ctx), node, ctx)


def _element(node: ast.expr, child: ast.AST, holder: ast.Tuple | ast.List | ast.Set, ctx: Context) -> Goal:
    outer = ctx.parent(holder)
    if isinstance(outer, ast.Assign) and not isinstance(holder, ast.Set):
        position = next(i for i, item in enumerate(holder.elts) if item is child)
        names = [
            _devices.identifier(target.elts[position])
            for target in outer.targets
            if isinstance(target, (ast.Tuple, ast.List)) and len(target.elts) == len(holder.elts)
        ]
        if names:
            return _named(names, node, ctx)
    others = [item.func for item in getattr(holder, "elts", ()) if isinstance(item, ast.Call)]
    if any(ctx.resolve(item) == "portkit.runtime.device_type" for item in others):
        return Goal.ELSEWHERE  # the list already has the accelerator of the machine
    if isinstance(outer, ast.Compare) or _sites.in_annotation(holder, ctx):
        return Goal.ELSEWHERE
    if isinstance(outer, ast.keyword):
        call = ctx.parent(outer)
        if isinstance(call, ast.Call) and is_option(call) and outer.arg == "choices":
            return Goal.CHOICES if is_device_option(call) else Goal.UNKNOWN
        if outer.arg == "device_types":
            return Goal.KERNEL
    return Goal.SEVERAL if ctx.is_device_sink(node) or _collects(_whole_list(outer, ctx)) else Goal.UNKNOWN


def _whole_list(outer: ast.AST | None, ctx: Context) -> ast.AST | None:
    """What holds a list that is a part of another: `["cpu"] + (["cuda"] if ... else [])`."""
    while isinstance(outer, ast.IfExp) or (isinstance(outer, ast.BinOp) and isinstance(outer.op, ast.Add)):
        outer = ctx.parent(outer)
    return outer


def _collects(outer: ast.AST | None) -> bool:
    """Whether a list is assigned to, or walked by, a name that says devices."""
    if isinstance(outer, ast.Assign):
        return any(_devices.is_device_name(_devices.identifier(t)) for t in outer.targets)
    if isinstance(outer, (ast.For, ast.comprehension)):
        return _devices.is_device_name(_devices.identifier(outer.target))
    return False


def is_option(call: ast.Call) -> bool:
    """Whether a call declares a command-line option."""
    return isinstance(call.func, ast.Attribute) and call.func.attr in ("add_argument", "option", "Option")


def is_device_option(call: ast.Call) -> bool:
    """Whether a command-line option is by its name a device."""
    flags = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    return any(_devices.is_device_name(flag) for flag in flags)


def substring(node: ast.AST, ctx: Context) -> ast.expr | None:
    """The device text that `"cuda" if "cuda" in device else "cpu"` looks into, or None."""
    if not isinstance(node, ast.IfExp) or _word(node.body) != "cuda" or _word(node.orelse) != "cpu":
        return None
    test = node.test
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.In):
        return test.comparators[0] if _word(test.left) == "cuda" else None
    if (
        isinstance(test, ast.Call)
        and isinstance(test.func, ast.Attribute)
        and test.func.attr == "startswith"
        and len(test.args) == 1
        and _word(test.args[0]) == "cuda"
    ):
        return test.func.value
    return None


def _word(node: ast.AST) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


_OTHERS = frozenset({"cpu", "rocm", "hip", *branches.ACCELERATORS})


def is_cuda_entry(key: ast.expr | None, table: ast.Dict) -> bool:
    """Whether a key of a dictionary is "cuda", beside the types of other devices."""
    if key is None or _word(key) != "cuda":
        return False
    return any(item is not None and _word(item) in _OTHERS for item in table.keys)
