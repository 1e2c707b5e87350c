"""Where a value goes: whether an expression ends up as a device."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from portkit.names import Names
from portkit.scopes import FUNCTIONS, Bound, Scope, parameters

_DEVICE_NAME = re.compile(
    r"(?:.*_)?(?:devices?|dev|devs|map_location|device_map|device_type|device_name|device_str)\d*(?:_str|_name|_type)?",
    re.IGNORECASE,
)
_CAMEL = re.compile(r".*[a-z]Device")

# callee → position of the argument that is a device
_POSITION = {
    "torch.device": 0,
    "torch.autocast": 0,
    "torch.amp.autocast": 0,
    "torch.amp.GradScaler": 0,
    "torch.load": 1,
    "torch.set_default_device": 0,
    "torch.get_device_module": 0,
    "torch.Generator": 0,
    "torch.distributed.init_device_mesh": 0,
    "torch.distributed.device_mesh.init_device_mesh": 0,
    "torch.distributed.device_mesh.DeviceMesh": 0,
    "torch.distributed.get_default_backend_for_device": 0,
    "portkit.runtime.synchronize": 0,
}
# functions of torch.cuda, torch.accelerator and portkit.runtime whose first argument is a device
_DEVICE_FIRST = frozenset(
    {"set_device", "device", "synchronize", "current_stream", "default_stream", "get_rng_state", "Stream"}
    | {"get_device_name", "get_device_properties", "get_device_capability", "device_of", "utilization"}
    | {"memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "mem_get_info"}
    | {"reset_peak_memory_stats", "memory_stats", "memory_summary", "memory_cached", "max_memory_cached"}
)
_METHODS = frozenset({"to", "cuda", "to_empty", "type_as_device", "set_device"})
_PICKERS = {"getattr": 2, "get": 1, "getenv": 1, "setdefault": 1, "pop": 1}  # call → position of the default
_DEPTH = 12


def looks_like_device(name: str) -> bool:
    """Whether a name is one that people give to devices (`device`, `dev`, `device_type`, `gpu_device`)."""
    return _DEVICE_NAME.fullmatch(name) is not None or _CAMEL.fullmatch(name) is not None


class Flow:
    """Follows values of one unit to the places where they are used."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.tree = names.tree
        self._known: dict[ast.AST, bool] = {}
        self._seen: dict[ast.AST, int] = {}  # in one search: the shortest way on which a node was met

    def is_device_sink(self, node: ast.AST) -> bool:
        """Whether the value of `node` is used as a device."""
        if node not in self._known:
            outer, self._seen = self._seen, {}
            self._known[node] = self._sinks(node, 0)
            self._seen = outer
        return self._known[node]

    def _sinks(self, node: ast.AST, depth: int) -> bool:
        """Whether a search reaches a sink; a node is searched again only nearer to the start."""
        if depth > _DEPTH or self._seen.get(node, _DEPTH + 1) <= depth:
            return False
        self._seen[node] = depth
        return self._parent_sinks(node, depth + 1)

    def _parent_sinks(self, node: ast.AST, depth: int) -> bool:
        parent = self.tree.parents.get(node)
        if isinstance(parent, ast.keyword):
            return self._keyword(parent, depth)
        if isinstance(parent, ast.Call):
            return self._argument(parent, node, depth)
        if isinstance(parent, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and node is parent.value:
            return self._assigned(parent, depth)
        if isinstance(parent, ast.Compare):
            return self._compared(parent, node)
        if isinstance(parent, (ast.Tuple, ast.List, ast.Set)):
            return self._element(parent, node, depth)
        if isinstance(parent, ast.Dict):
            return self._dict_value(parent, node, depth)
        if isinstance(parent, ast.arguments):
            return self._default(parent, node, depth)
        if isinstance(parent, ast.Return):
            return self._returned(parent, depth)
        if isinstance(parent, ast.Lambda) and node is parent.body:
            return self._sinks(parent, depth)
        if isinstance(parent, ast.MatchValue):
            return self._pattern(parent)
        return self._passed_on(parent, node, depth)

    def _passed_on(self, parent: ast.AST | None, node: ast.AST, depth: int) -> bool:
        """Expressions whose value is, or is built from, the value of one of their parts."""
        if isinstance(parent, ast.IfExp) and node is not parent.test:
            return self._sinks(parent, depth)
        if isinstance(parent, ast.BinOp) and isinstance(parent.op, (ast.Add, ast.Mod)):
            return self._sinks(parent, depth)
        if isinstance(parent, (ast.BoolOp, ast.JoinedStr, ast.FormattedValue, ast.Starred)):
            return self._sinks(parent, depth)
        if isinstance(parent, ast.Attribute) and parent.attr in ("format", "lower", "strip"):
            call = self.tree.parents.get(parent)
            return isinstance(call, ast.Call) and call.func is parent and self._sinks(call, depth)
        return False

    # --- calls -------------------------------------------------------------------------------------

    def _keyword(self, keyword: ast.keyword, depth: int) -> bool:
        call = self.tree.parents.get(keyword)
        if keyword.arg is None or not isinstance(call, ast.Call):
            return False
        if looks_like_device(keyword.arg):
            return True
        if keyword.arg == "default":
            return self._option_default(call, depth)
        return self._parameter_sinks(call, keyword.arg, depth)

    def _option_default(self, call: ast.Call, depth: int) -> bool:
        """`default=` of a command line option or of a dataclass field."""
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if name in ("add_argument", "option", "argument", "add_option"):
            return any(map(self._dest_sinks, self._dests(call)))
        if name in ("field", "Field", "attrib", "ib", "Option", "Argument"):
            return self._sinks(call, depth)
        return False

    def _dests(self, call: ast.Call) -> Iterator[str]:
        for keyword in call.keywords:
            if keyword.arg == "dest" and isinstance(keyword.value, ast.Constant):
                yield str(keyword.value.value)
        for argument in call.args:
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                yield argument.value.lstrip("-").replace("-", "_")

    def _dest_sinks(self, name: str) -> bool:
        if looks_like_device(name) or self.names.settings_elsewhere(name):
            return True
        uses = [use for use in self.tree.attributes.get(name, ()) if isinstance(use.ctx, ast.Load)]
        return any(self._sinks(use, 2) for use in uses)

    def _argument(self, call: ast.Call, node: ast.AST, depth: int) -> bool:
        if node is call.func:
            return False
        position = call.args.index(node) if node in call.args else -1
        name = self.names.resolve(call.func)
        if name is not None and self._known_position(name) == position:
            return True
        if name is None and isinstance(call.func, ast.Name) and call.func.id in ("str", "torch_device"):
            return self._sinks(call, depth)
        last = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if isinstance(call.func, ast.Attribute) and position == 0:
            if last in _METHODS and name is None:
                return True
            if last in ("startswith", "find", "index", "count", "replace", "split", "removeprefix"):
                return self.is_device(call.func.value)
        if _PICKERS.get(last) == position:
            return self._picked(call, depth)
        if last.startswith("DEFINE_") and position == 1:
            return any(map(self._dest_sinks, self._dests(call)))
        if last in ("Option", "Argument", "Field") and position == 0:
            return self._sinks(call, depth)
        parameter = self._parameter_at(call, position)
        return parameter is not None and self._parameter_sinks(call, parameter, depth)

    def _picked(self, call: ast.Call, depth: int) -> bool:
        """The default of `getattr(args, "device", default)`, `d.get("device", default)`, `os.getenv(..)`."""
        key = call.args[-2] if len(call.args) > 1 else None
        if isinstance(key, ast.Constant) and isinstance(key.value, str) and looks_like_device(key.value):
            return True
        return self._sinks(call, depth)

    def _known_position(self, name: str) -> int | None:
        for package in ("torch.cuda.", "torch.accelerator.", "portkit.runtime."):
            if name.startswith(package) and name.removeprefix(package) in _DEVICE_FIRST:
                return 0
        return _POSITION.get(name)

    def _signature(self, call: ast.Call) -> tuple[ast.arguments, int, Scope] | None:
        """Parameters of the user's function that is called, how many are bound already, and its scope."""
        function = self.names.definition(call.func)
        bound = int(isinstance(call.func, ast.Attribute))
        if isinstance(function, ast.ClassDef):
            bound = 1
            inits = self.tree.owned[function].bindings.get("__init__", [])
            function = inits[0].node if len(inits) == 1 else None
        if not isinstance(function, FUNCTIONS):
            return None
        return function.args, bound, self.tree.owned[function]

    def _parameter_at(self, call: ast.Call, position: int) -> str | None:
        found = self._signature(call)
        if position < 0:
            return None
        if found is None:
            names = self.names.parameters_elsewhere(call.func)
            return names[position] if position < len(names) else None
        arguments, bound, _ = found
        plain = [*arguments.posonlyargs, *arguments.args]
        return plain[position + bound].arg if position + bound < len(plain) else None

    def _parameter_sinks(self, call: ast.Call, name: str, depth: int) -> bool:
        found = self._signature(call)
        if found is None:
            return looks_like_device(name) and bool(self.names.parameters_elsewhere(call.func))
        return looks_like_device(name) or self._name_sinks(name, found[2], depth)

    # --- names -------------------------------------------------------------------------------------

    def _assigned(self, parent: ast.Assign | ast.AnnAssign | ast.NamedExpr, depth: int) -> bool:
        targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
        if any(self._target_sinks(target, depth) for target in targets):
            return True
        return isinstance(parent, ast.NamedExpr) and self._sinks(parent, depth)

    def _target_sinks(self, target: ast.AST, depth: int) -> bool:
        if isinstance(target, ast.Name):
            if looks_like_device(target.id):
                return True
            scope = self.tree.scope_of(target.id, target)
            if scope is None:
                return False
            if scope.is_module and self.names.sinks_elsewhere(target.id):
                return True
            if self._name_sinks(target.id, scope, depth):
                return True
            owner = scope.node if isinstance(scope.node, ast.ClassDef) else None
            return owner is not None and self._member_sinks(target.id, owner, depth)
        if isinstance(target, ast.Attribute):
            owner = self.names.members.owner(target)
            return looks_like_device(target.attr) or self._member_sinks(target.attr, owner, depth)
        if isinstance(target, ast.Subscript):
            key = self.names.constant(target.slice)
            return isinstance(key, str) and looks_like_device(key)
        return False

    def _name_sinks(self, name: str, scope: Scope, depth: int) -> bool:
        return any(self._sinks(use, depth) for use in self.tree.uses(name, scope))

    def _member_sinks(self, name: str, owner: ast.ClassDef | None, depth: int) -> bool:
        """Whether an attribute is used as a device, by `self` of its class or by anybody from outside."""
        if owner is not None and self.names.settings_elsewhere(name):
            return True
        members = self.names.members
        for use in self.tree.attributes.get(name, ()):
            if owner is not None and not members.shares(owner, members.owner(use)):
                continue
            if isinstance(use.ctx, ast.Load) and self._sinks(use, depth):
                return True
        return False

    def _default(self, arguments: ast.arguments, node: ast.AST, depth: int) -> bool:
        function = self.tree.parents[arguments]
        for argument, default in parameters(arguments):
            if default is node:
                if looks_like_device(argument.arg):
                    return True
                return self._name_sinks(argument.arg, self.tree.owned[function], depth)
        return False

    def _returned(self, parent: ast.Return, depth: int) -> bool:
        for outer in self.tree.ancestors(parent):
            if isinstance(outer, FUNCTIONS):
                if looks_like_device(outer.name):
                    return True
                return any(
                    self._sinks(call, depth)
                    for use in self.tree.loads.get(outer.name, ())
                    if isinstance(call := self.tree.parents[use], ast.Call) and call.func is use
                )
        return False

    # --- containers --------------------------------------------------------------------------------

    def _element(self, holder: ast.Tuple | ast.List | ast.Set, node: ast.AST, depth: int) -> bool:
        parent = self.tree.parents.get(holder)
        if isinstance(parent, ast.Compare):
            return self._compared(parent, holder)
        if isinstance(parent, (ast.For, ast.AsyncFor, ast.comprehension)) and holder is parent.iter:
            return self._target_sinks(parent.target, depth)
        if isinstance(parent, ast.Assign):
            return self._unpacked(parent, holder, node, depth)
        if isinstance(parent, ast.Call) and holder in parent.args[1:2]:
            names = self.names.constant(parent.args[0])
            parametrize = isinstance(parent.func, ast.Attribute) and parent.func.attr == "parametrize"
            return parametrize and isinstance(names, str) and looks_like_device(names.strip())
        if isinstance(parent, ast.keyword) and parent.arg is not None:
            return looks_like_device(parent.arg)
        return False

    def _unpacked(self, parent: ast.Assign, holder: ast.AST, node: ast.AST, depth: int) -> bool:
        for target in parent.targets:
            if isinstance(target, (ast.Tuple, ast.List)) and isinstance(holder, (ast.Tuple, ast.List)):
                position = holder.elts.index(node)  # type: ignore[arg-type]
                if position < len(target.elts) and self._target_sinks(target.elts[position], depth):
                    return True
            elif isinstance(target, ast.Name) and looks_like_device(target.id):
                return True
        return False

    def _dict_value(self, holder: ast.Dict, node: ast.AST, depth: int) -> bool:
        position = next((i for i, value in enumerate(holder.values) if value is node), None)
        if position is None:
            return False  # a key: data, never a device
        key = holder.keys[position]
        if isinstance(key, ast.Constant) and isinstance(key.value, str) and looks_like_device(key.value):
            return True
        parent = self.tree.parents.get(holder)
        return isinstance(parent, ast.keyword) and parent.arg in ("map_location", "device_map")

    # --- comparisons -------------------------------------------------------------------------------

    def _compared(self, compare: ast.Compare, node: ast.AST) -> bool:
        return any(self.is_device(side) for side in (compare.left, *compare.comparators) if side is not node)

    def _pattern(self, node: ast.MatchValue) -> bool:
        for outer in self.tree.ancestors(node):
            if isinstance(outer, ast.Match):
                return self.is_device(outer.subject)
        return False

    def is_device(self, node: ast.AST) -> bool:
        """Whether an expression is a device, or the type or name of one."""
        if isinstance(node, ast.Name):
            return looks_like_device(node.id) or self._holds_device(node)
        if isinstance(node, ast.Attribute):
            return looks_like_device(node.attr) or (node.attr == "type" and self.is_device(node.value))
        if isinstance(node, ast.Subscript):
            key = self.names.constant(node.slice)
            if isinstance(key, str):
                return looks_like_device(key)
            return isinstance(node.slice, ast.Slice) and self.is_device(node.value)
        if isinstance(node, ast.Call):
            if self.names.resolve(node.func) in ("torch.device", "portkit.runtime.device"):
                return True
            if isinstance(node.func, ast.Name) and node.func.id == "str" and node.args:
                return self.is_device(node.args[0])
            if isinstance(node.func, ast.Attribute) and node.func.attr in ("lower", "strip", "split"):
                return self.is_device(node.func.value)
        return False

    def _holds_device(self, node: ast.Name) -> bool:
        for item in self.tree.bindings(node.id, node):
            value = item.value if item.how is Bound.VALUE else None
            if isinstance(value, ast.Call) and self.names.resolve(value.func) == "torch.device":
                return True
            if isinstance(value, ast.Attribute) and self.is_device(value):
                return True
        return False
