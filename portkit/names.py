"""What an expression means here: qualified names behind imports and aliases, and values of constants."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence
from functools import cached_property

from portkit import tables
from portkit.constants import Constants
from portkit.links import Lookup, Meaning
from portkit.members import Members
from portkit.scopes import Binding, Bound, Scope, Tree, walk
from portkit.sites import equal, taken_by_import

_DEPTH = 24  # aliases of aliases that are followed; more is a loop or a joke
_SHALLOW = 2  # depth from which on an answer may be cut off by the limit

# Modules that only hold what a package re-exports: the short name is what everybody knows.
_CANONICAL: tuple[tuple[str, str], ...] = (
    ("torch.cuda.amp.autocast_mode.", "torch.cuda.amp."),
    ("torch.cuda.amp.grad_scaler.", "torch.cuda.amp."),
    ("torch.cuda.streams.", "torch.cuda."),
    ("torch.cuda.memory.", "torch.cuda."),
    ("torch.cuda.random.", "torch.cuda."),
    ("torch.cuda.graphs.", "torch.cuda."),
    ("torch.amp.autocast_mode.", "torch.amp."),
    ("torch.amp.grad_scaler.", "torch.amp."),
    ("torch.distributed.distributed_c10d.", "torch.distributed."),
    ("torch.distributed.fsdp.fully_sharded_data_parallel.", "torch.distributed.fsdp."),
    ("torch.nn.parallel.distributed.", "torch.nn.parallel."),
    ("torch.nn.parallel.data_parallel.", "torch.nn.parallel."),
    ("torch.utils.data.dataloader.", "torch.utils.data."),
    ("torch.nn.parameter.", "torch.nn."),
    ("torch.functional.", "torch."),
    ("torch.random.", "torch."),
    ("torch.serialization.", "torch."),
    ("torch.tensor.", "torch."),
)

# What a name means by custom when it can only have come through a star import of the user's own module.
_CUSTOM = {
    "torch": "torch",
    "nn": "torch.nn",
    "F": "torch.nn.functional",
    "dist": "torch.distributed",
    "tl": "triton.language",
    "triton": "triton",
}
_STAR_PACKAGES = ("torch", "triton", "apex", "flash_attn", "xformers", "numba", "cupy")
LATE_IMPORTS = frozenset({"importlib.import_module", "pytest.importorskip"})  # they return the module
_BUILTINS = frozenset(dir(builtins))
_TELLING = (Bound.IMPORT, Bound.VALUE)  # ways to bind a name that say what it is


def canonical(name: str) -> str:
    """The usual spelling of a qualified name of torch."""
    if not name.startswith("torch."):
        return name
    if name.startswith("torch.nn.modules."):
        last = name.rpartition(".")[2]
        return f"torch.nn.{last}" if last[:1].isupper() else name
    for long, short in _CANONICAL:
        if name.startswith(long) and name.count(".") == long.count("."):
            return short + name[len(long) :]
    return name


class Names:
    """Resolves the expressions of one unit.  Answers are kept, so asking twice costs nothing."""

    def __init__(self, tree: Tree, lookup: Lookup | None = None) -> None:
        self.tree = tree
        self.lookup = lookup
        self.elsewhere: dict[ast.AST, Meaning] = {}  # nodes that other modules of the program gave a meaning
        self._known: dict[ast.AST, str | None] = {}
        self._stars = [star for scope in tree.every_scope() for star in scope.stars]
        self._partial: set[ast.AST] = set()
        self._starred: set[ast.AST] = set()
        self._several: set[ast.AST] = set()
        self._hidden = lookup.links.hidden if lookup is not None else ()
        self._settled: dict[tuple[Scope | None, str], str | None] = {}  # what a name means, by scope
        self._assigned: dict[int, Binding | None] = {}  # by identity of a list of bindings
        self.members = Members(tree)
        self.constants = Constants(tree, self.members, self._text_elsewhere)

    # --- qualified names ---------------------------------------------------------------------------

    def resolve(self, node: ast.AST, depth: int = 0) -> str | None:
        """Qualified name that `node` means, or None."""
        if node in self._known:
            return self._known[node]
        if depth > _DEPTH:
            return None
        name = self._resolve(node, depth + 1)
        if name is not None:
            name = canonical(self._linked(node, name) if self.lookup is not None else name)
        self._known[node] = name
        return name

    @cached_property
    def telling(self) -> frozenset[str] | None:
        """The words that may mean something: those that an import or an assignment binds.  None where any
        word may, for a star import can bring it."""
        if self._stars:
            return None
        return frozenset(
            name
            for scope in self.tree.every_scope()
            for name, bindings in scope.bindings.items()
            if any(item.how in _TELLING for item in bindings)
        )

    def _linked(self, node: ast.AST, name: str) -> str:
        """What a name of another module of the program is."""
        meaning = self.lookup.names.get(name) if self.lookup is not None else None
        if meaning is None:
            return name
        self.elsewhere[node] = meaning
        if meaning.several:
            self._several.add(node)
        return meaning.name

    def _text_elsewhere(self, node: ast.expr) -> str | None:
        """The text that a name of another module holds."""
        if self.lookup is None or not self.lookup.values:
            return None
        name = self.resolve(node)
        return self.lookup.values.get(name) if name is not None else None

    def is_of_program(self, local: str) -> bool:
        """Whether `local` comes from another module of the program, or another takes it from here."""
        targets = [item.target for item in self.tree.top.bindings.get(local, ()) if item.how is Bound.IMPORT]
        own = self.lookup.own if self.lookup is not None else frozenset()
        needed = self.lookup.links.needed if self.lookup is not None else ()
        return local in needed or any(target.startswith(".") or target in own for target in targets)

    def sinks_elsewhere(self, name: str) -> bool:
        """Whether another module uses a name of this one as a device."""
        return self.lookup is not None and name in self.lookup.links.sinks

    def settings_elsewhere(self, name: str) -> bool:
        """Whether another module takes the setting `name` (`args.name`, `cfg.name`) as a device."""
        return self.lookup is not None and name in self.lookup.links.settings

    def parameters_elsewhere(self, callee: ast.AST) -> tuple[str, ...]:
        """The positional parameters of a function of another module; empty if it is not known."""
        name = self.resolve(callee) if self.lookup is not None and self.lookup.parameters else None
        return self.lookup.parameters.get(name, ()) if name is not None and self.lookup is not None else ()

    def through_star(self, node: ast.AST) -> bool:
        """Whether the meaning of `node` was guessed from a star import."""
        return any(item in self._starred for item in walk(node))

    def has_several_meanings(self, node: ast.AST) -> bool:
        """Whether `node` is one of several things between which a condition decides."""
        return bool(self._several) and any(item in self._several for item in walk(node))

    def through_partial(self, node: ast.AST) -> bool:
        """Whether `node` means a function with some arguments already bound."""
        return node in self._partial

    def _resolve(self, node: ast.AST, depth: int) -> str | None:
        if isinstance(node, ast.Name):
            return self._resolve_name(node, depth)
        if isinstance(node, ast.Attribute):
            base = self.resolve(node.value, depth)
            if base is not None:
                return f"{base}.{node.attr}"
            return self._resolve_member(node, depth)
        if isinstance(node, ast.Call):
            return self._resolve_call(node, depth)
        if isinstance(node, (ast.NamedExpr, ast.Await)):
            return self.resolve(node.value, depth)
        if isinstance(node, ast.IfExp):
            return self._resolve_choice(node, depth)
        return None

    def _resolve_choice(self, node: ast.IfExp, depth: int) -> str | None:
        """`flash_attn_func if HAS_FLASH else None` means what it is when it is anything."""
        real = [item for item in (node.body, node.orelse) if not _is_placeholder(item)]
        names = {self.resolve(item, depth) for item in real}
        return names.pop() if len(names) == 1 else None

    def _resolve_name(self, node: ast.Name, depth: int) -> str | None:
        place = (self.tree.scopes.get(node), node.id)
        if place in self._settled:
            return self._settled[place]
        bindings = self.tree.bindings(node.id, node)
        name = self._resolve_bound(node, bindings, depth) if bindings else self._resolve_unbound(node)
        everywhere = not bindings or id(bindings) in self._assigned  # whatever node of the scope asks
        if everywhere and depth <= _SHALLOW and not (self._hidden or self._is_special(node)):
            self._settled[place] = name
        return name

    def _is_special(self, node: ast.Name) -> bool:
        return node in self._starred or node in self._partial or node in self._several

    def _resolve_bound(self, node: ast.Name, bindings: list[Binding], depth: int) -> str | None:
        binding = self._decide(node, bindings)
        if binding is None:
            return None
        if binding.how is Bound.IMPORT:
            return binding.target
        value = binding.value
        assert value is not None
        if isinstance(value, ast.Name) and value.id == node.id:
            return None
        name = self.resolve(value, depth)
        if name is not None and value in self._partial:
            self._partial.add(node)
        return name

    def deciding(self, node: ast.Name) -> Binding | None:
        """The import or assignment that a name gets its meaning from, or None if that is not known."""
        bindings = self.tree.bindings(node.id, node)
        return self._decide(node, bindings) if bindings else None

    def _decide(self, node: ast.Name, bindings: list[Binding]) -> Binding | None:
        if node.id in self._hidden and self.tree.scope_of(node.id, node) is self.tree.top:
            self._several.add(node)
        if id(bindings) in self._assigned:
            return self._assigned[id(bindings)]
        if len(bindings) == 1:  # as almost always
            only = bindings[0]
            tells = only.how in _TELLING and not (only.value is not None and _is_placeholder(only.value))
            self._assigned[id(bindings)] = only if tells else None
            return self._assigned[id(bindings)]
        running = self._running(bindings)
        imports = [item for item in running if item.how is Bound.IMPORT]
        others = [item for item in running if item.how is not Bound.IMPORT]
        real = [item for item in others if item.value is None or not _is_placeholder(item.value)]
        if imports:
            return self._best_import(imports, real, node)
        self._assigned[id(bindings)] = decided = _only_value(real)
        return decided

    def _running(self, bindings: list[Binding]) -> list[Binding]:
        """Bindings without those for type checkers only, where there are others."""
        if len(bindings) < 2:
            return bindings
        return [item for item in bindings if not self._for_checkers(item.node)] or bindings

    def _for_checkers(self, node: ast.AST) -> bool:
        outer = self.tree.parents.get(node)
        return isinstance(outer, ast.If) and node in outer.body and taken_by_import(outer.test) is False

    def star_import(self, node: ast.Name) -> ast.ImportFrom | None:
        """The star import that `node` gets its meaning from, if that is certain or the best guess."""
        name = self.resolve(node)
        if name is None or self.tree.bindings(node.id, node):
            return None
        for item in self.tree.star_imports:
            brought = _joined("." * item.level + (item.module or ""), node.id)
            if brought == name or (self.lookup is not None and brought in self.lookup.names):
                return item
        return None

    def _in_try(self, node: ast.AST) -> bool:
        parent = self.tree.parents.get(node)
        return isinstance(parent, ast.Try) and node in parent.body

    def _in_handler(self, node: ast.AST) -> bool:
        return any(isinstance(item, ast.ExceptHandler) for item in self.tree.ancestors(node))

    def _best_import(
        self, imports: Sequence[Binding], others: Sequence[Binding], node: ast.AST
    ) -> Binding | None:
        """The import that counts: the only one, the one tried first, or the last of those that always run.

        One of several between which a condition decides is only a guess; where something else than an import
        or a definition binds the name as well, there is not even that.
        """
        if not others and len({item.target for item in imports}) == 1:
            return imports[0]
        tried = [item for item in imports if self._in_try(item.node)]
        if tried and all(self._in_handler(item.node) for item in others):
            return tried[0]
        last = imports[-1]
        if not others and self._follows(last, node):
            return last
        if any(item.how not in (Bound.VALUE, Bound.DEFINITION) for item in others):
            return None
        if any(self._is_plain(item) for item in others):
            return None  # rebound for good
        known = [item for item in imports if item.target.partition(".")[0] in tables.packages()]
        bound = [item for item in known if "cuda" in item.target]
        guess = next(reversed(bound or known), None if others else last)
        if guess is not None:
            self._several.add(node)
        return guess

    def _follows(self, item: Binding, node: ast.AST) -> bool:
        """Whether a binding replaces all before it, and runs before `node`."""
        scope = self.tree.scopes.get(item.node)
        if not self._is_plain(item) or scope is None:
            return False
        same = self.tree.scopes.get(node) is scope
        return not same or getattr(item.node, "lineno", 0) <= getattr(node, "lineno", 0)

    def _is_plain(self, item: Binding) -> bool:
        """Whether a binding is made whenever its scope runs: under no condition, in no loop."""
        inner, scope = item.node, self.tree.scopes.get(item.node)
        while not isinstance(inner, ast.stmt) and inner in self.tree.parents:
            inner = self.tree.parents[inner]
        return scope is not None and self.tree.parents.get(inner) is scope.node

    def _resolve_unbound(self, node: ast.Name) -> str | None:
        if not self._stars or node.id in _BUILTINS:
            return None
        stars = self._stars
        if self.lookup is not None:
            own = [star for star in stars if _joined(star, node.id) in self.lookup.names]
            if len(own) == 1:
                return _joined(own[0], node.id)
            stars = [star for star in stars if star not in self.lookup.links.stars]
        known = [star for star in stars if star.split(".")[0] in _STAR_PACKAGES]
        name = _CUSTOM.get(node.id) if len(known) < len(stars) else None
        if known and name is None:
            name = f"{_pick_star(known, node.id)}.{node.id}"
        if name is not None and (len(known) < len(stars) or len(known) > 1):
            self._starred.add(node)
        return name

    def _resolve_member(self, node: ast.Attribute, depth: int) -> str | None:
        """`self.name` or `Class.name`, when the class assigns it exactly once."""
        value = self.members.value(node)
        if value is None and self.members.owner(node) is None:
            value = self.members.class_value(node)
        if value is None:
            return None
        name = self.resolve(value, depth)
        if name is not None and value in self._partial:
            self._partial.add(node)
        return name

    def _resolve_call(self, node: ast.Call, depth: int) -> str | None:
        function = node.func
        if isinstance(function, ast.Name) and function.id in ("getattr", "__import__"):
            if self.tree.bindings(function.id, node):
                return None
            return self._resolve_builtin(function.id, node, depth)
        name = self.resolve(function, depth)
        if name in ("functools.partial", "functools.partialmethod") and node.args:
            inner = self.resolve(node.args[0], depth)
            if inner is not None:
                self._partial.add(node)
            return inner
        if name in LATE_IMPORTS and node.args:
            module = self.constant(node.args[0])
            return module if isinstance(module, str) and not module.startswith(".") else None
        return None

    def _resolve_builtin(self, function: str, node: ast.Call, depth: int) -> str | None:
        if function == "__import__":
            module = self.constant(node.args[0]) if node.args else None
            return module.partition(".")[0] if isinstance(module, str) else None
        if len(node.args) < 2:
            return None
        base, attribute = self.resolve(node.args[0], depth), self.constant(node.args[1])
        return f"{base}.{attribute}" if base is not None and isinstance(attribute, str) else None

    def constant(self, node: ast.AST) -> object | None:
        """The value of a constant expression, or None if it is not known."""
        return self.constants.value(node)

    # --- how the file spells things ----------------------------------------------------------------

    def local_name(self, qualified: str) -> str | None:
        """How a module-level import of this unit spells `qualified`, or None."""
        best: tuple[int, str] | None = None
        for name, bindings in self.tree.top.bindings.items():
            imports = [item for item in bindings if item.how is Bound.IMPORT]
            if not imports or len(imports) < len(bindings) or not any(map(self._always_runs, imports)):
                continue
            decided = self._best_import(imports, (), self.tree.module)
            if decided is None or self.tree.module in self._several:
                self._several.discard(self.tree.module)
                continue
            target = decided.target
            if target == qualified or qualified.startswith(f"{target}."):
                spelled = name + qualified[len(target) :]
                if best is None or len(target) > best[0]:
                    best = (len(target), spelled)
        return best[1] if best is not None else None

    def _always_runs(self, item: Binding) -> bool:
        """Whether an import runs whenever the module does, or fails loudly: not below `if TYPE_CHECKING:`."""
        parent = self.tree.parents.get(item.node)
        if isinstance(parent, ast.Try) and item.node in parent.body:
            parent = self.tree.parents.get(parent)
        return isinstance(parent, ast.Module)

    def is_bound_anywhere(self, name: str) -> bool:
        """Whether any scope of the unit binds `name`, or a star import might."""
        return any(name in scope.bindings for scope in self.tree.every_scope())

    def is_shadowed(self, name: str, node: ast.AST) -> bool:
        """Whether `name` is bound to something other than an import where `node` stands."""
        bindings = self.tree.bindings(name, node)
        return any(item.how is not Bound.IMPORT for item in bindings)

    def definition(self, node: ast.expr) -> ast.AST | None:
        """The function or class of this unit that a callee means (`f`, `Class`, `self.method`), or None."""
        if isinstance(node, ast.Name):
            bindings = self.tree.bindings(node.id, node)
            if len(bindings) == 1 and bindings[0].how is Bound.DEFINITION:
                return bindings[0].node
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            owner = self._class_around(node)
            bindings = owner.bindings.get(node.attr, []) if owner is not None else []
            if len(bindings) == 1 and bindings[0].how is Bound.DEFINITION:
                return bindings[0].node
        return None

    def _class_around(self, node: ast.AST) -> Scope | None:
        scope: Scope | None = self.tree.scopes.get(node)
        while scope is not None and not scope.is_class:
            scope = scope.parent
        return scope


def _joined(package: str, name: str) -> str:
    return f"{package}{name}" if package.endswith(".") else f"{package}.{name}"


def _only_value(bindings: Sequence[Binding]) -> Binding | None:
    """The binding that gives a name its only value; None where there may be another one."""
    if not bindings or any(item.how is not Bound.VALUE for item in bindings):
        return None
    values = [item.value for item in bindings if item.value is not None]
    return bindings[0] if all(equal(values[0], value) for value in values[1:]) else None


def _is_placeholder(value: ast.expr) -> bool:
    """`None`, `False` and the like: what a name is set to when an optional import fails."""
    return isinstance(value, ast.Constant) and (value.value is None or isinstance(value.value, bool))


def _pick_star(packages: Sequence[str], name: str) -> str:
    """The star-imported package that a name most likely came from."""
    if len(packages) == 1:
        return packages[0]
    modules = name[:1].isupper() and name not in ("Tensor", "Generator", "Size")
    if modules and "torch.nn" in packages:
        return "torch.nn"
    if not modules and "torch" in packages and name in ("cuda", "device", "nn", "optim", "distributed"):
        return "torch"
    return packages[-1]
