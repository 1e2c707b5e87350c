"""Modules over operators: constructors, state and results of the torch modules that they stand for."""

from __future__ import annotations

import copy
import inspect
import subprocess
import sys

import pytest

import portkit.runtime as pk

torch = pytest.importorskip("torch")

MODULES = pk.nn.modules()
ARGUMENTS = {
    "LayerNorm": [(16,), ((3, 16), 1e-3), (16, 1e-5, False), (16, 1e-5, True, False)],
    "RMSNorm": [(16,), ((3, 16), 1e-3), (16, None, False)],
    "GELU": [(), ("tanh",)],
    "SiLU": [(), (True,)],
    "Softmax": [(-1,), (0,)],
    "Linear": [(16, 5), (16, 5, False)],
    "CrossEntropyLoss": [(), (None, None, 3, None, "sum", 0.1), (torch.arange(1.0, 4.0),)],
}
CASES = [(name, args) for name, found in ARGUMENTS.items() for args in found]


def inputs(name):
    """What a module is called with."""
    torch.manual_seed(0)
    if name == "CrossEntropyLoss":
        return torch.randn(4, 3, 16), torch.randint(0, 3, (4, 16))
    return (torch.randn(4, 3, 16),)


def test_every_module_has_cases():
    assert set(ARGUMENTS) == set(MODULES)


@pytest.mark.parametrize("force", ["", "tile", "composite"])
@pytest.mark.parametrize(("name", "args"), CASES)
def test_same_results_and_gradients_from_the_same_state(name, args, force, monkeypatch):
    monkeypatch.setenv("PORTKIT_FORCE", force)
    theirs = getattr(torch.nn, name)(*args)
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter)
    ours = MODULES[name](*args)
    ours.load_state_dict(theirs.state_dict())
    values = inputs(name)
    results = []
    for module in (theirs, ours):
        leaf = values[0].clone().requires_grad_()
        result = module(leaf * 1.0, *values[1:])
        wanted = [leaf, *module.parameters()]
        results.append([result, *torch.autograd.grad(result.square().sum(), wanted)])
    torch.testing.assert_close(results[0], results[1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("name", "args"), CASES)
def test_stands_for_the_torch_module(name, args):
    original = getattr(torch.nn, name)
    module = MODULES[name](*args)
    assert isinstance(module, original)
    assert inspect.signature(MODULES[name]) == inspect.signature(original)
    assert repr(module) == repr(original(*args))
    assert module.state_dict().keys() == original(*args).state_dict().keys()
    assert type(copy.deepcopy(module)) is MODULES[name]


def test_dtype_and_device_arguments_are_kept():
    assert pk.nn.LayerNorm(8, device="meta", dtype=torch.bfloat16).weight.dtype == torch.bfloat16
    assert pk.nn.RMSNorm(8, eps=1e-6, device="meta").weight.is_meta


def test_compiles_in_a_model(monkeypatch):
    monkeypatch.setenv("PORTKIT_FORCE", "tile")
    model = torch.nn.Sequential(pk.nn.Linear(16, 32), pk.nn.GELU("tanh"), pk.nn.LayerNorm(32))
    x = torch.randn(5, 16)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), model(x))


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="no module 'NoSuchModule'"):
        pk.nn.NoSuchModule


def test_importing_the_runtime_leaves_torch_alone():
    code = "import sys, portkit.runtime as pk; pk.nn; pk.ops; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
