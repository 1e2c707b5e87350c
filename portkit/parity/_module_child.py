"""Builds modules, runs them forward and backward, and saves what they give: one side of module parity.

    OUT [SCRIPT ARGUMENTS...]

Modules come from a spec, or from what the script calls in its first training step.  OUT is a folder:
arrays.npz (no pickles) and about.json.  Settings come in PORTKIT_PARITY (JSON): seed, standin, float16, spec,
given (the folder of the original, whose state and inputs are used).
"""

from __future__ import annotations

import importlib
import inspect
import io
import json
import os
import sys
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.modules import module as hooks

from portkit.parity import _child, _standin
from portkit.parity._digest import mapped, tensors
from portkit.parity._observe import Rounding

PLAIN = (bool, int, float, str, type(None))
NOISE = (7, 8)
_TOLD = 400  # characters of an error's text that a report shows, on one line


class Wrong(Exception):
    """A module can't be built or run; the message says why."""


@dataclass
class Subject:
    """One module and how it is called."""

    name: str
    module: Any
    args: Any
    kwargs: Any
    autocast: str = ""  # dtype of the autocast region that it is called in
    error: str = ""


class Store:
    """Named arrays, and what NumPy can't say of them."""

    def __init__(self) -> None:
        self.arrays: dict[str, Any] = {}
        self.dtypes: dict[str, str] = {}

    def put(self, key: str, tensor: Any) -> str:
        """Save a tensor."""
        value = tensor.detach().cpu()
        self.dtypes[key] = str(value.dtype).removeprefix("torch.")
        plain = value.float() if value.dtype in (torch.bfloat16, torch.float16) else value
        self.arrays[key] = plain.resolve_conj().numpy().copy()
        return key

    def get(self, key: str) -> Any:
        """A tensor as it was saved."""
        return torch.from_numpy(np.array(self.arrays[key])).to(getattr(torch, self.dtypes[key]))

    def tree(self, key: str, value: Any) -> Any:
        """Nested arguments as JSON, tensors saved.  Raises Wrong for what can't be."""
        if isinstance(value, torch.Tensor):
            return {"tensor": self.put(key, value)}
        if isinstance(value, (list, tuple)):
            items = [self.tree(f"{key}.{i}", item) for i, item in enumerate(value)]
            return {"tuple" if isinstance(value, tuple) else "list": items}
        if isinstance(value, dict) and all(isinstance(name, str) for name in value):
            return {"dict": {name: self.tree(f"{key}.{name}", item) for name, item in value.items()}}
        if isinstance(value, PLAIN):
            return {"plain": value}
        raise Wrong(f"it is called with a {type(value).__name__}, which can't be saved: build it with a spec")

    def back(self, tree: Mapping[str, Any]) -> Any:
        """What `tree` was made of."""
        ((kind, value),) = tree.items()
        if kind == "tensor":
            return self.get(value)
        if kind == "dict":
            return {name: self.back(item) for name, item in value.items()}
        if kind == "plain":
            return value
        return tuple(map(self.back, value)) if kind == "tuple" else list(map(self.back, value))


# --- modules from a script ----------------------------------------------------------------------------------


@dataclass
class Capture:
    """The first call of every module of a running script."""

    depth: int = 0
    root: Any = None
    calls: dict[int, Subject] = field(default_factory=dict)

    def install(self) -> None:
        """Watch from now on."""
        hooks.register_module_forward_pre_hook(self.enter)
        hooks.register_module_forward_hook(self.leave, with_kwargs=True, always_call=True)

    def enter(self, module: Any, args: Any) -> None:
        if self.depth == 0 and self.root is None:
            self.root = module
        self.depth += 1

    def leave(self, module: Any, args: Any, kwargs: Any, result: Any) -> None:
        self.depth -= 1
        if id(module) in self.calls or not module.training:
            return
        autocast = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None
        name = str(autocast).removeprefix("torch.") if autocast is not None else ""
        own, named = mapped((args, kwargs), lambda t: t.detach().clone())
        self.calls[id(module)] = Subject("", module, own, named, name)

    def subjects(self, names: list[str]) -> list[Subject]:
        """The modules of these names, or else the whole, and the first of each class that is not torch's."""
        if self.root is None:
            raise Wrong("the script calls no module")
        found: dict[str, Subject] = {}
        classes = set()
        for name, module in self.root.named_modules():
            call = self.calls.get(id(module))
            if call is None or (names and name not in names):
                continue
            if not names and _is_torchs(module) and module is not self.root:
                continue
            if names or type(module) not in classes:
                classes.add(type(module))
                call.name = name
                found[name] = call
        if not found and not names:
            raise Wrong("the script calls no module in training")
        return list(found.values())


def _is_torchs(module: Any) -> bool:
    return type(module).__module__.partition(".")[0] == "torch"


def _from_script(script: str, arguments: list[str], seed: int, names: list[str]) -> list[Subject]:
    """What a script calls in its first training step."""
    capture = Capture()
    capture.install()
    recorder = _child.Recorder(io.StringIO(), {"steps": 1})
    _child._watch(recorder)
    _child._seed(seed)
    with suppress(_child.Enough):
        _child._run(script, arguments)
    capture.depth = -1 << 30  # what is run from here on is no call of the script
    return capture.subjects(names)


# --- modules from a spec ------------------------------------------------------------------------------------


def _from_spec(spec: list[dict[str, Any]], seed: int) -> list[Subject]:
    sys.path.insert(0, os.getcwd())
    found = []
    for entry in spec:
        _child._seed(seed)
        name = str(entry.get("name") or entry["import"])
        try:
            module = _built(entry)
            args = tuple(_input(one) for one in entry.get("inputs", ()))
            found.append(Subject(name, module, args, {}, str(entry.get("autocast", ""))))
        except Wrong as error:
            found.append(Subject(name, None, (), {}, error=str(error)))
    return found


def _built(entry: Mapping[str, Any]) -> Any:
    """A module; a function becomes one.  Raises Wrong."""
    target = _imported(entry["import"])
    if not inspect.isclass(target):
        return _Function(target)
    made = _call(target, entry["import"], entry)
    if not isinstance(made, torch.nn.Module):
        raise Wrong(f"{entry['import']} makes a {type(made).__name__}, no module")
    return made


class _Function(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def _imported(path: str) -> Any:
    name, _, attributes = path.partition(":")
    try:
        value: Any = importlib.import_module(name)
        for attribute in attributes.split("."):
            value = getattr(value, attribute)
    except Exception as error:
        raise Wrong(f"{path} can't be imported: {type(error).__name__}: {error}") from None
    return value


def _call(target: Any, path: str, entry: Mapping[str, Any]) -> Any:
    args = [_value(item) for item in entry.get("arguments", ())]
    kwargs = {name: _value(item) for name, item in entry.get("keywords", {}).items()}
    try:
        inspect.signature(target).bind(*args, **kwargs)
    except TypeError as error:
        raise Wrong(
            f"{path} takes {inspect.signature(target)}: {error}; the spec gives its arguments"
        ) from None
    try:
        return target(*args, **kwargs)
    except Exception as error:
        raise Wrong(f"{path} can't be built: {type(error).__name__}: {error}") from None


def _value(item: Any) -> Any:
    """A constructor argument: plain, or `{call = "module:Name", arguments, keywords}`."""
    if isinstance(item, dict) and "call" in item:
        return _call(_imported(item["call"]), item["call"], item)
    return item


def _input(one: Any) -> Any:
    if not isinstance(one, dict):
        return one
    dtype = getattr(torch, str(one.get("dtype", "float32")))
    shape = tuple(one["shape"])
    if dtype.is_floating_point:
        return torch.randn(shape).mul(float(one.get("scale", 1.0))).to(dtype)
    return torch.randint(int(one.get("low", 0)), int(one.get("high", 2)), shape).to(dtype)


# --- running ----------------------------------------------------------------------------------------------


def _replay(
    subject: Subject, state: Mapping[str, Any], seed: int, rounding: Rounding | None
) -> dict[str, Any]:
    """Outputs, gradients and buffers, in training and in evaluation, by name."""
    found: dict[str, Any] = {}
    for mode in ("train", "eval"):
        subject.module.load_state_dict(state)
        subject.module.train(mode == "train")
        if rounding is not None:
            for parameter in subject.module.parameters():
                rounding.disturb(parameter)
        _child._seed(seed)
        for name, tensor in _once(subject, rounding).items():
            found[f"{mode}: {name}"] = tensor
    subject.module.load_state_dict(state)
    return found


def _once(subject: Subject, rounding: Rounding | None) -> dict[str, Any]:
    def own(tensor: Any) -> Any:
        tensor = tensor.detach().clone()
        tensor = rounding.disturbed(tensor) if rounding is not None else tensor
        return tensor.requires_grad_(tensor.is_floating_point())

    args, kwargs = mapped((subject.args, subject.kwargs), own)
    dtype = getattr(torch, subject.autocast) if subject.autocast else None
    with torch.autocast("cpu", dtype=dtype) if dtype is not None else nullcontext():
        result = subject.module(*args, **kwargs)
    outputs = list(tensors(result))
    found = {f"output {i}": tensor for i, tensor in enumerate(outputs)}
    wanted = {f"input {i}": t for i, t in enumerate(tensors([args, kwargs])) if t.requires_grad}
    wanted.update((name, p) for name, p in subject.module.named_parameters() if p.requires_grad)
    roots = [tensor for tensor in outputs if tensor.requires_grad]
    if roots and wanted:
        rng = np.random.default_rng(11)
        above = [torch.from_numpy(np.asarray(rng.standard_normal(tuple(t.shape)))).to(t.dtype) for t in roots]
        grads = torch.autograd.grad(roots, list(wanted.values()), above, allow_unused=True)
        pairs = zip(wanted, grads, strict=True)
        found.update((f"gradient of {name}", grad) for name, grad in pairs if grad is not None)
    for name, buffer in subject.module.named_buffers():
        found[f"buffer {name}"] = buffer.detach().clone()  # loading the state again changes it in place
    return found


def _results(subject: Subject, state: Mapping[str, Any], seed: int, base: bool) -> dict[str, dict[str, Any]]:
    """What a module gives, and, of the original, what it gives with other rounding."""
    found = {"result": _replay(subject, state, seed, None)}
    for number in NOISE if base else ():
        rounding = Rounding(number)
        handle = rounding.install()
        try:
            found[f"noise {number}"] = _replay(subject, state, seed, rounding)
        finally:
            handle.remove()
    return found


def _prove(subject: Subject, store: Store, given: tuple[Store, Any] | None, seed: int) -> dict[str, Any]:
    """Run one module and save it all; returns what there is to say of it.  Raises Wrong."""
    if subject.error:
        raise Wrong(subject.error)
    if given is not None:
        other, about = given
        args, kwargs = other.back(about["inputs"])
        subject.args, subject.kwargs, subject.autocast = args, kwargs, about["autocast"]
        state = other.back(about["state"])
    else:
        state = {k: v.detach().clone() for k, v in subject.module.state_dict().items()}
    inputs = store.tree(f"{subject.name}|inputs", (subject.args, subject.kwargs))
    kept = store.tree(f"{subject.name}|state", dict(state))
    try:
        groups = _results(subject, state, seed, given is None)
    except Exception as error:
        told = " ".join(str(error).split())[:_TOLD]
        raise Wrong(f"{type(error).__name__}: {told}") from None
    results = {
        group: {name: store.put(f"{subject.name}|{group}|{name}", t) for name, t in found.items()}
        for group, found in groups.items()
    }
    code = getattr(type(subject.module).forward, "__code__", None)
    function = getattr(subject.module, "function", None)
    code = getattr(function, "__code__", code)
    return {
        "inputs": inputs,
        "state": kept,
        "autocast": subject.autocast,
        "results": results,
        "site": _site(code),
        "type": f"{type(subject.module).__module__}.{type(subject.module).__qualname__}",
    }


def _site(code: Any) -> str:
    try:
        path = Path(code.co_filename).resolve().relative_to(Path.cwd().resolve())
        return f"{path.as_posix()}:{code.co_firstlineno}"
    except (ValueError, AttributeError):
        return ""


def load(folder: Path) -> tuple[Store, dict[str, Any]]:
    """What a child saved."""
    about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    store = Store()
    with np.load(folder / "arrays.npz", allow_pickle=False) as arrays:
        store.arrays = {str(about["keys"][int(key[1:])]): arrays[key] for key in arrays.files}
    store.dtypes = about["dtypes"]
    return store, about


def _save(folder: Path, store: Store, modules: Mapping[str, Any]) -> None:
    keys = list(store.arrays)
    np.savez(folder / "arrays.npz", **{f"a{i}": store.arrays[key] for i, key in enumerate(keys)})
    about = {"keys": keys, "dtypes": store.dtypes, "modules": dict(modules)}
    (folder / "about.json").write_text(json.dumps(about), encoding="utf-8")


def main(argv: list[str]) -> int:
    """Prove the modules of one side."""
    sys.dont_write_bytecode = True  # a file that changes within a second would be taken for the old one
    out, *rest = argv
    settings = json.loads(os.environ.get("PORTKIT_PARITY", "{}"))
    if settings.get("float16") or settings.get("standin"):
        os.environ["PORTKIT_CPU_FLOAT16"] = "1"
    given = load(Path(settings["given"])) if settings.get("given") else None
    names = list(given[1]["modules"]) if given else []
    seed = int(settings.get("seed", 0))
    with _standin.standing_in(settings.get("standin", False)):
        try:
            if settings.get("spec"):
                subjects = _from_spec(settings["spec"], seed)
            else:
                subjects = _from_script(rest[0], rest[1:], seed, names)
        except Wrong as error:
            sys.exit(str(error))
        store, modules = Store(), {}
        for subject in subjects:
            base = (given[0], given[1]["modules"].get(subject.name)) if given else None
            if base is not None and (base[1] is None or "error" in base[1]):
                continue
            try:
                modules[subject.name] = _prove(subject, store, base, seed)
            except Wrong as error:
                modules[subject.name] = {"error": str(error)}
    _save(Path(out), store, modules)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
