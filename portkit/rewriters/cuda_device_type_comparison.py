"""Comparisons of a device with CUDA."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from portkit.finding import Finding, Phase, Replace, Support
from portkit.rewriters import _devices, _extension, _references, _script, _sinks, _sites, _vendor
from portkit.rule import Context, Rule
from portkit.scopes import FUNCTIONS

_EQUAL = (ast.Eq, ast.NotEq)
_NOTE = (
    "It was false for a torch.device, and for cuda:1; now it is true for every device but the CPU. "
    "A text that is no device name is an error now."
)


_PATTERNS = frozenset(
    {"re.match", "re.fullmatch", "re.search", "re.compile", "re.findall", "re.sub", "re.split"}
)


class CudaDeviceTypeComparison(Rule):
    """A test for CUDA stands where a test for an accelerator is meant.

    What: `device.type == "cuda"`, `device_type != "cuda"`, `device == "cuda"`, `"cuda" in str(device)`,
    `device.startswith("cuda")`, `device in ("cuda", "cpu")`, `case "cuda":`, patterns such as `cuda:(\\d+)`;
    a test for the CPU whose other branch calls a CUDA extension.
    Why: another accelerator takes the path meant for the CPU. `device == "cuda"` is always false for a
    `torch.device`.
    Instead: `device.type != "cpu"` where a device type is compared; `pk.is_accelerator(device)` for other
    spellings, which needs a review, as does a function that only answers the question, and a test with
    branches for other devices behind it. A branch with something of NVIDIA's in it (cuDNN, NCCL, TF32,
    compute capability, ...) keeps its test. Lists of allowed devices and `match` patterns are left to a
    person.
    Safety: the same on CUDA and on the CPU, but for tensors on `meta`, whose type is not "cpu" either.
    """

    id = "PK304"
    name = "cuda_device_type_comparison"
    phase = Phase.FULL_MODEL
    triggers = (b"cuda",)
    opens_branch = True

    def visit_Compare(self, node: ast.Compare, ctx: Context) -> Iterable[Finding]:
        around = ctx.parent(node)
        if _sites.is_refusal(node, ctx) is not None:
            return  # another rule removes the statement
        if len(node.ops) != 1 or (around is not None and _sinks.substring(around, ctx) is not None):
            return
        left, operator, right = node.left, node.ops[0], node.comparators[0]
        if _is_ours(left, ctx) or _is_ours(right, ctx):
            return
        if isinstance(operator, (ast.In, ast.NotIn)):
            yield from self._membership(node, left, right, isinstance(operator, ast.NotIn), ctx)
            return
        if _cuda(left, ctx) is not None:
            left, right = right, left
        if _text(right) == "cpu" and isinstance(operator, _EQUAL):
            yield from self._only_cpu(node, left, isinstance(operator, ast.NotEq), ctx)
        found = _cuda(right, ctx)
        if found is None:
            return
        if isinstance(operator, _EQUAL) and found.index is None and _is_listed(node, left, ctx):
            yield self._manual(node, ctx, "Add the other devices that may pass; the ones listed stay.")
        elif isinstance(operator, _EQUAL) and found.index is None:
            yield from self._equality(node, left, isinstance(operator, ast.NotEq), ctx)
        else:
            yield self._manual(node, ctx, "Compare torch.device objects, or ask for the type and the index.")

    def visit_Call(self, node: ast.Call, ctx: Context) -> Iterable[Finding]:
        around = ctx.parent(node)
        if (ctx.resolve(node.func) or "") in _PATTERNS:
            yield from self._pattern(node, ctx)
            return
        if not isinstance(node.func, ast.Attribute) or node.func.attr != "startswith" or len(node.args) != 1:
            return
        if _text(node.args[0]) == "cuda:":
            yield self._manual(node, ctx, "Ask torch.device(name) for its type and its index.")
            return
        if not _is_cuda(node.args[0]) or (around is not None and _sinks.substring(around, ctx) is not None):
            return
        yield from self._loose(node, node.func.value, False, ctx)

    def _pattern(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        """`re.match(r"cuda:(\\d+)", device)`."""
        pattern = node.args[0] if node.args else None
        if pattern is None or not _text(pattern).lstrip("^(").startswith(
            ("cuda:", "cuda(", "cuda$", "cuda|")
        ):
            return
        device = _inside_str(node.args[1]) if len(node.args) > 1 else None
        if device is not None and (_is_device(device) or ctx.is_device_sink(device)):
            yield self._manual(node, ctx, "Ask torch.device(name) for its type and its index.")
        else:
            yield self._unknown(node, ctx, device)

    def visit_MatchValue(self, node: ast.MatchValue, ctx: Context) -> Iterable[Finding]:
        if _devices.spelling(node.value, ctx) is not None:
            yield self._manual(node, ctx, "Add a case for other accelerators: a pattern can't call portkit.")

    def _only_cpu(self, node: ast.Compare, left: ast.expr, negated: bool, ctx: Context) -> Iterator[Finding]:
        """`if x.device.type == "cpu": ... else: <CUDA code>`: a dependency without the word."""
        if not (_is_type(left, ctx) or _is_device(left)):
            return
        if _extension.is_reached(node, negated, ctx):
            yield self._manual(
                node, ctx, "Every device but the CPU goes to CUDA code: test for what that needs."
            )

    def _equality(self, node: ast.Compare, left: ast.expr, negated: bool, ctx: Context) -> Iterator[Finding]:
        if isinstance(left, ast.Call) and ctx.resolve(left.func) == "portkit.runtime.device_type":
            return  # asked on purpose
        if not _is_type(left, ctx):
            yield from self._loose(node, left, negated, ctx)
            return
        if _vendor.guards_vendor(node, ctx):
            yield self._vendor_branch(node, ctx)
            return
        quote = "'" if "'cuda'" in ctx.source(node) else '"'
        text = f"{ctx.source(left)} {'==' if negated else '!='} {quote}cpu{quote}"
        answers = _sites.decides_answer(node, ctx)
        yield ctx.finding(
            self,
            node,
            "The test singles out CUDA",
            support=Support.REVIEW if answers else Support.AUTO,
            remedy=f"Use {text}.",
            note=_sites.ANSWERS if answers else "",
            edits=[Replace(ctx.span(node), text)],
        )

    def _membership(
        self, node: ast.Compare, left: ast.expr, right: ast.expr, negated: bool, ctx: Context
    ) -> Iterator[Finding]:
        if _is_cuda(left) and _is_type(right, ctx):
            yield from self._equality(node, right, negated, ctx)
        elif _is_cuda(left):
            yield from self._loose(node, right, negated, ctx)
        elif isinstance(right, (ast.Tuple, ast.List, ast.Set)) and any(
            _devices.spelling(item, ctx) is not None for item in right.elts
        ):
            if _is_type(left, ctx) or _is_device(_inside_str(left)) or ctx.is_device_sink(left):
                yield self._manual(node, ctx, "Add the other devices that may pass; the ones listed stay.")
            else:
                yield self._unknown(node, ctx, left)

    def _loose(self, node: ast.expr, value: ast.expr, negated: bool, ctx: Context) -> Iterator[Finding]:
        """A comparison of something that is perhaps a device: an object, or a text."""
        device = _inside_str(value)
        if not (_is_device(device) or ctx.is_device_sink(device)):
            if isinstance(device, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)):
                yield self._unknown(node, ctx, device)
            return
        if _vendor.guards_vendor(node, ctx):
            yield self._vendor_branch(node, ctx)
            return
        if _script.in_torchscript(node, ctx):
            yield self._manual(node, ctx, "TorchScript compiles this function: compare device.type.")
            return
        local, imports = ctx.use(_references.RUNTIME)
        text = f"{'not ' if negated else ''}{local}.is_accelerator({ctx.source(device)})"
        yield ctx.finding(
            self,
            node,
            "The test singles out CUDA",
            support=Support.REVIEW,
            remedy=f"Use {text}.",
            note=_NOTE,
            edits=[Replace(ctx.span(node), text), *imports],
        )

    def _vendor_branch(self, node: ast.expr, ctx: Context) -> Finding:
        """A branch for NVIDIA's devices keeps its test; if it only makes the program faster, that is all."""
        if _vendor.is_speed(node, ctx):
            return ctx.finding(
                self,
                node,
                "The test singles out CUDA",
                support=Support.PORTABLE,
                remedy="It switches on something of NVIDIA's that other devices do without.",
            )
        return self._manual(node, ctx, "The branch is for NVIDIA's devices: add one for the others.")

    def _manual(self, node: ast.AST, ctx: Context, remedy: str) -> Finding:
        return ctx.finding(self, node, "The test singles out CUDA", support=Support.MANUAL, remedy=remedy)

    def _unknown(self, node: ast.AST, ctx: Context, value: ast.expr | None) -> Finding:
        if value is not None and _devices.is_implementation_name(_devices.identifier(value)):
            return ctx.finding(
                self,
                node,
                "One of several ways to compute is called cuda",
                support=Support.UNKNOWN,
                remedy="If it stands for kernels of CUDA, see that another one is chosen without CUDA.",
            )
        return ctx.finding(
            self,
            node,
            "It is not visible whether a device is compared with CUDA here",
            support=Support.UNKNOWN,
            remedy="If it is one, use pk.is_accelerator(device); if not, suppress the finding.",
        )


def _text(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _is_cuda(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == "cuda"


def _cuda(node: ast.expr, ctx: Context) -> _devices.Spelling | None:
    """A CUDA device by its name, or the type of one: `torch.device("cuda").type`."""
    found = _devices.spelling(node, ctx)
    if found is None and isinstance(node, ast.Attribute):
        found = _devices.named(node, ctx)
    return found


def _inside_str(node: ast.expr) -> ast.expr:
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "str"
        and len(node.args) == 1
    ):
        return node.args[0]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "lower":
        return node.func.value
    return node


def _is_device(node: ast.expr) -> bool:
    name = _devices.identifier(node)
    return _devices.is_device_name(name) and name.lower() != "devices"


def _is_type(node: ast.expr, ctx: Context) -> bool:
    """Whether an expression is a device's type: `x.device.type`, `torch.device(d).type`, `device_type`."""
    if isinstance(node, ast.Attribute) and node.attr == "type":
        base = node.value
        return _is_device(base) or _makes_device(base, ctx) or _is_kept_device(base, ctx)
    return {"device", "type"} <= _sites.words(_devices.identifier(node))


def _is_listed(node: ast.Compare, device: ast.expr, ctx: Context) -> bool:
    """Whether the test also compares the device with others: `d != "cuda" and d != "xpu"` lists them."""
    around = ctx.parent(node)
    if not isinstance(around, ast.BoolOp):
        return False
    source = ctx.source(device)
    for item in around.values:
        if item is node or not isinstance(item, ast.Compare) or len(item.ops) != 1:
            continue
        sides = (item.left, item.comparators[0])
        if any(ctx.source(side) == source for side in sides) and any(_text(side) for side in sides):
            return True
    return False


def _makes_device(node: ast.expr, ctx: Context) -> bool:
    return isinstance(node, ast.Call) and ctx.resolve(node.func) in ("torch.device", "portkit.runtime.device")


def _is_kept_device(node: ast.expr, ctx: Context) -> bool:
    """Whether a name was given a device: `where = x.device`, `where = torch.device(name)`."""
    if not isinstance(node, ast.Name):
        return False
    owners = (*(item for item in ctx.parents(node) if isinstance(item, (*FUNCTIONS, ast.Module))),)
    for owner in owners:
        values = [
            item.value
            for item in _sites.walk_body(owner)
            if isinstance(item, ast.Assign)
            and any(isinstance(target, ast.Name) and target.id == node.id for target in item.targets)
        ]
        if values:
            return all(
                (isinstance(value, ast.Attribute) and value.attr == "device") or _makes_device(value, ctx)
                for value in values
            )
    return False


def _is_ours(node: ast.expr, ctx: Context) -> bool:
    """Whether an expression is `pk.device_type()`: the migration put the comparison there."""
    return isinstance(node, ast.Call) and ctx.resolve(node.func) == "portkit.runtime.device_type"
