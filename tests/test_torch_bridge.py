"""Operators as torch sees them: gradients, fake tensors, torch.compile, autocast, saved tensors."""

from __future__ import annotations

import numpy as np
import pytest

import portkit.runtime.ops as ops
from portkit.runtime.ops._dispatch import chosen, tile_available

torch = pytest.importorskip("torch")

ALL = ops.operators()
CORES = [name for name, operator in ALL.items() if operator.core is not None]
pytestmark = pytest.mark.skipif(not tile_available(), reason="no tile compiler here")


@pytest.fixture(autouse=True)
def tile(monkeypatch):
    monkeypatch.setenv("PORTKIT_FORCE", "tile")


def first_sample(name, dtype=None, requires_grad=True):
    """Arguments of an operator's first sample as tensors."""
    sample = next(iter(ALL[name].samples()))
    args = []
    for i, value in enumerate(sample.args):
        tensor = torch.from_numpy(value) if isinstance(value, np.ndarray) else value
        if i in sample.differentiable:
            tensor = tensor.to(dtype or torch.float32).requires_grad_(requires_grad)
        args.append(tensor)
    return args, dict(sample.kwargs), sample.differentiable


class Seen(Exception):
    """Ends a call at its core."""


def core_call(name, monkeypatch):
    """Tensors and attributes that an operator gives its core for its first sample."""
    from portkit.runtime import torch_bridge

    def stop(*tensors, **attrs):
        raise Seen((*tensors, *attrs.values()))

    monkeypatch.setattr(torch_bridge, "core", lambda operator: stop)
    args, kwargs, _ = first_sample(name)
    with pytest.raises(Seen) as seen:
        ALL[name].function(*args, **kwargs)
    return seen.value.args[0]


@pytest.mark.parametrize("name", CORES)
def test_registration_holds_what_torch_demands(name, monkeypatch):
    """Schema, fake tensors, autograd registration and AOT dispatch, as torch.library.opcheck tests them."""
    call = [
        x.detach().requires_grad_(x.requires_grad) if torch.is_tensor(x) else x
        for x in core_call(name, monkeypatch)
    ]
    torch.library.opcheck(getattr(torch.ops.portkit, name).default, tuple(call))


@pytest.mark.parametrize("name", CORES)
def test_compiled_whole_graph_gives_the_same(name):
    torch.compiler.reset()
    args, kwargs, differentiable = first_sample(name)
    inputs = [args[i] for i in differentiable]

    def call(*tensors):
        full = list(args)
        for i, tensor in zip(differentiable, tensors, strict=True):
            full[i] = tensor
        return ALL[name].function(*full, **kwargs)

    expected = call(*inputs)
    grad = torch.ones_like(expected)
    expected_grads = torch.autograd.grad(expected, inputs, grad)
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")(*inputs)
    assert compiled.grad_fn is not None
    torch.testing.assert_close(compiled, expected)
    torch.testing.assert_close(torch.autograd.grad(compiled, inputs, grad), expected_grads)


@pytest.mark.parametrize("name", ALL)
def test_second_order_gradients_through_the_composite(name, monkeypatch):
    monkeypatch.setenv("PORTKIT_FORCE", "composite")
    args, kwargs, differentiable = first_sample(name)
    inputs = [args[i].detach().double().requires_grad_() for i in differentiable]

    def call(*tensors):
        full = list(args)
        for i, tensor in zip(differentiable, tensors, strict=True):
            full[i] = tensor
        return ALL[name].function(*full, **kwargs)

    assert torch.autograd.gradcheck(call, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(call, inputs, fast_mode=True)


@pytest.mark.parametrize("name", CORES)
def test_second_order_gradients_of_kernels_are_those_of_the_composite(name, monkeypatch):
    def second(implementation):
        monkeypatch.setenv("PORTKIT_FORCE", implementation)
        args, kwargs, differentiable = first_sample(name)
        inputs = [args[i] for i in differentiable]
        result = ALL[name].function(*args, **kwargs)
        first = torch.autograd.grad((result**2).sum(), inputs, create_graph=True)
        return first, torch.autograd.grad(sum((g**2).sum() for g in first), inputs)

    for ours, theirs in zip(second("tile"), second("composite"), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("name", CORES)
def test_only_what_needs_a_gradient_gets_one(name):
    args, kwargs, differentiable = first_sample(name, requires_grad=False)
    assert not ALL[name].function(*args, **kwargs).requires_grad
    for i in differentiable:
        args[i].requires_grad_(True)
        result = ALL[name].function(*args, **kwargs)
        (got,) = torch.autograd.grad(result.sum(), args[i])
        assert got.shape == args[i].shape
        args[i].requires_grad_(False)
    with torch.no_grad():
        args[differentiable[0]].requires_grad_(True)
        assert not ALL[name].function(*args, **kwargs).requires_grad


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm", "silu", "gelu", "cross_entropy"])
def test_overwriting_what_was_saved_is_noticed(name):
    args, kwargs, differentiable = first_sample(name)
    leaf = args[differentiable[0]]
    args[differentiable[0]] = moved = leaf * 1.0
    result = ALL[name].function(*args, **kwargs)
    with torch.no_grad():
        moved.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


@pytest.mark.parametrize("name", ["layer_norm", "gelu"])
def test_gradients_of_any_layout_are_taken(name):
    args, kwargs, differentiable = first_sample(name)
    x = args[differentiable[0]]
    result = ALL[name].function(*args, **kwargs)
    for grad in (torch.ones(()).expand(result.shape), torch.randn(result.shape[::-1]).T):
        got = torch.autograd.grad(result, x, grad, retain_graph=True)
        torch.testing.assert_close(got, torch.autograd.grad(result, x, grad.contiguous(), retain_graph=True))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("given", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ALL)
def test_autocast_gives_the_dtype_that_torch_gives(name, given, dtype, monkeypatch):
    args, kwargs, differentiable = first_sample(name, given)
    results = {}
    for force in ("vendor", "tile"):
        monkeypatch.setenv("PORTKIT_FORCE", force)
        with torch.autocast("cpu", dtype=dtype):
            result = ALL[name].function(*args, **kwargs)
        grads = torch.autograd.grad(result.sum(), [args[i] for i in differentiable])
        results[force] = (result.dtype, [g.dtype for g in grads])
    assert results["tile"] == results["vendor"]


@pytest.mark.parametrize("name", CORES)
def test_checkpointing_recomputes(name):
    from torch.utils.checkpoint import checkpoint

    args, kwargs, differentiable = first_sample(name)
    inputs = [args[i] for i in differentiable]
    plain = torch.autograd.grad(ALL[name].function(*args, **kwargs).sum(), inputs)
    again = checkpoint(lambda *a: ALL[name].function(*a, **kwargs), *args, use_reentrant=False)
    torch.testing.assert_close(torch.autograd.grad(again.sum(), inputs), plain)


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace.*:DeprecationWarning")
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("force", ["", "tile"])
def test_a_trace_holds_the_operator_and_not_its_value(force, monkeypatch):
    monkeypatch.setenv("PORTKIT_FORCE", force)
    x = torch.randn(600, 512)
    traced = torch.jit.trace(lambda v: ops.gelu(v, "tanh"), (x,), check_trace=False)
    torch.testing.assert_close(traced(x * 2), torch.nn.functional.gelu(x * 2, approximate="tanh"))


def test_large_tensors_without_data_go_to_torch(monkeypatch):
    monkeypatch.delenv("PORTKIT_FORCE")
    x = torch.empty(4096, 4096, device="meta")
    assert ops.softmax(x, -1).is_meta
    assert ops.silu(x).is_meta


def test_default_takes_kernels_for_large_inputs_only(monkeypatch):
    monkeypatch.delenv("PORTKIT_FORCE")
    rms = ALL["rms_norm"]
    assert chosen(rms, (torch.randn(1024, 1024), (1024,), None, 1e-6), {}) == "tile"
    assert chosen(rms, (torch.randn(4, 64), (64,), None, 1e-6), {}) == "vendor"
    assert chosen(rms, (torch.randn(1024, 1024).double(), (1024,), None, 1e-6), {}) == "vendor"


def test_functorch_transforms_work_without_force(monkeypatch):
    monkeypatch.delenv("PORTKIT_FORCE")
    x = torch.randn(3, 64, 64)
    expected = torch.softmax(x, -1)
    torch.testing.assert_close(torch.vmap(lambda row: ops.softmax(row, -1))(x), expected)
    gradient = torch.func.grad(lambda v: ops.gelu(v).sum())(x)
    assert gradient.shape == x.shape


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch scripts its forward derivatives
@pytest.mark.parametrize("transform", ["vmap", "grad", "jvp"])
def test_transforms_of_torch_func_see_through_the_call(transform):
    x = torch.randn(4, 5)
    calls = {
        "vmap": lambda f: torch.func.vmap(f)(x),
        "grad": lambda f: torch.func.grad(lambda x: (f(x) ** 2).sum())(x),
        "jvp": lambda f: torch.func.jvp(f, (x,), (x,))[1],
    }
    ours = calls[transform](lambda x: ops.softmax(x, -1))
    torch.testing.assert_close(ours, calls[transform](lambda x: torch.softmax(x, -1)))
