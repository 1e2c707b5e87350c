"""Every operator, sample, implementation and dtype against the float64 reference, forward and gradients."""

from __future__ import annotations

import importlib
import inspect
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

import portkit.runtime.nn as pk_nn
import portkit.runtime.ops as ops
from portkit.errors import UsageError
from portkit.runtime.ops._dispatch import IMPLEMENTATIONS
from portkit.runtime.ops._operator import Tolerance

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

torch = pytest.importorskip("torch")

DTYPES = ("float32", "bfloat16", "float16", "float64")
FIXTURES = Path(__file__).parent.parent / "fixtures" / "operators"
FOLDERS = [Path(package.__path__[0]) for package in (ops, pk_nn)]
ALL = ops.operators()
CASES = [(name, implementation) for name in ALL for implementation in IMPLEMENTATIONS]


def as_tensor(value, dtype, differentiable):
    """The array as a tensor of the same strides; floating point arrays in the dtype under test."""
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype != np.float32:
        return torch.from_numpy(np.asarray(value))
    out = torch.empty_strided(value.shape, [s // 4 for s in value.strides], dtype=dtype)
    return out.copy_(torch.from_numpy(value)).requires_grad_(differentiable)


def rounded(value):
    """What the operator was given, as float64."""
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().double().numpy() if value.is_floating_point() else value.numpy()


def assert_close(actual, expected, bound, what):
    """Each element within the bound of the oracle; NaN where that has NaN."""
    actual = np.asarray(actual, np.float64)
    assert actual.shape == expected.shape, f"{what}: shape {actual.shape} instead of {expected.shape}"
    with np.errstate(invalid="ignore"):
        error = np.abs(actual - expected) - bound.rtol * np.abs(expected)
    error = np.where((actual == expected) | (np.isnan(actual) & np.isnan(expected)), 0.0, error)
    worst = error.max(initial=0.0)
    assert worst <= bound.atol, f"{what}: off by {worst:.3g}, allowed {bound.atol:.3g}"


def loosened(bound, factor):
    """torch's own kernels are allowed more: some sum gradients in 16 bits."""
    return Tolerance(bound.atol * factor, bound.rtol * factor)


def tensors(sample, dtype):
    """Positional and keyword arguments of a sample as torch tensors."""
    kind = getattr(torch, dtype)
    args = [as_tensor(a, kind, i in sample.differentiable) for i, a in enumerate(sample.args)]
    kwargs = {name: as_tensor(a, kind, False) for name, a in sample.kwargs.items()}
    return args, kwargs


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "implementation"), CASES)
def test_against_the_oracle(name, implementation, dtype, monkeypatch):
    monkeypatch.setenv("PORTKIT_FORCE", implementation)
    operator = ALL[name]
    for sample in operator.samples():
        args, kwargs = tensors(sample, dtype)
        exact, options = [rounded(a) for a in args], {k: rounded(v) for k, v in kwargs.items()}
        result = operator.function(*args, **kwargs)
        assert str(result.dtype) == f"torch.{dtype}"
        bound = loosened(operator.tolerance[dtype], 4 if implementation == "vendor" else 1)
        assert_close(rounded(result), operator.reference(*exact, **options), bound, f"{sample.id}: output")
        grad = torch.linspace(-1, 1, max(result.numel(), 2), dtype=result.dtype)[: result.numel()]
        grad = grad.reshape(result.shape)
        got = torch.autograd.grad(result, [args[i] for i in sample.differentiable], grad)
        expected = operator.reference_backward(rounded(grad), *exact, **options)
        expected = [e for e in expected if e is not None]
        for i, (a, e) in enumerate(zip(got, expected, strict=True)):
            assert_close(rounded(a), e, bound, f"{sample.id}: gradient {i}")


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize(("name", "implementation"), [(n, i) for n, i in CASES if i != "vendor"])
def test_numpy_against_the_oracle(name, implementation, dtype, monkeypatch):
    monkeypatch.setenv("PORTKIT_FORCE", implementation)
    operator = ALL[name]
    for sample in operator.samples():
        args = [a.astype(dtype) if getattr(a, "dtype", None) == np.float32 else a for a in sample.args]
        result = operator.function(*args, **sample.kwargs)
        assert isinstance(result, np.ndarray)
        assert result.dtype == dtype
        expected = operator.reference(*args, **sample.kwargs)
        assert_close(result, expected, operator.tolerance[dtype], sample.id)


@pytest.mark.parametrize("name", ALL)
def test_reference_backward_is_the_derivative_of_reference(name):
    """Against central differences in float64, along one random direction for each argument."""
    operator = ALL[name]
    rng = np.random.default_rng(3)
    for sample in operator.samples():
        args = [a.astype(np.float64) if getattr(a, "dtype", None) == np.float32 else a for a in sample.args]
        if any(np.abs(a).max(initial=0) > 50 for a in args if isinstance(a, np.ndarray)):
            continue  # differences lose all digits there; the kernels are still compared with the formula
        y = operator.reference(*args, **sample.kwargs)
        if np.isnan(y).any():
            continue
        grad = rng.standard_normal(y.shape)
        grads = [g for g in operator.reference_backward(grad, *args, **sample.kwargs) if g is not None]
        for position, g in zip(sample.differentiable, grads, strict=True):
            step = 1e-6 * rng.standard_normal(args[position].shape)
            ahead, behind = (
                operator.reference(
                    *args[:position], args[position] + s, *args[position + 1 :], **sample.kwargs
                )
                for s in (step, -step)
            )
            numeric = (grad * (ahead - behind)).sum() / 2
            assert numeric == pytest.approx((g * step).sum(), rel=1e-4, abs=1e-10), sample.id


def entries():
    """Every [[replaces]] of the data beside operators and modules."""
    for folder in FOLDERS:
        for path in sorted(folder.glob("*.toml")):
            data = tomllib.loads(path.read_text(encoding="utf-8"))
            for entry in data["replaces"]:
                yield pytest.param(folder.name, data, entry, id=f"{folder.name}:{entry['name']}")


def parameters(signature):
    """Parameters of a signature in Python syntax."""
    scope = {}
    exec(f"def f({signature}): pass", scope)
    return inspect.signature(scope["f"]).parameters


@pytest.mark.parametrize(("folder", "data", "entry"), list(entries()))
def test_replacement_data_fits_both_sides(folder, data, entry):
    package = ops if folder == "ops" else pk_nn
    ours = inspect.signature(getattr(package, entry.get("to", data["name"]))).parameters
    theirs = parameters(entry["signature"])
    tables = {key: entry.get(key, {}) for key in ("map", "drop", "refuse", "require", "add", "default")}
    for key in ("map", "drop", "refuse", "require", "default"):
        assert set(tables[key]) <= set(theirs), f"{key} names a parameter that is not there"
    gone = set(tables["drop"]) | set(tables["refuse"])
    kept = {n: tables["map"].get(n, n) for n in theirs if n not in gone}
    given = set(kept.values()) | set(tables["add"])
    assert given <= set(ours)
    assert {n for n, p in ours.items() if p.default is inspect.Parameter.empty} <= given
    for name, target in kept.items():
        default = theirs[name].default
        if default is inspect.Parameter.empty or name in tables["require"]:
            continue
        told = eval(tables["default"][name]) if name in tables["default"] else ours[target].default
        assert default == told, f"{name}: default {default!r} there, {told!r} here"
    assert entry["support"] == "auto" or entry["note"]


@pytest.mark.parametrize(("folder", "data", "entry"), [p for p in entries() if ":torch." in p.id])
def test_signature_is_that_of_torch(folder, data, entry):
    original = torch
    for part in entry["name"].split(".")[1:]:
        original = getattr(original, part)
    try:
        real = inspect.signature(original).parameters
    except ValueError:
        assert entry["signature"].split(", ")[0] in ("input", "query", "self")  # a builtin shows no more
        return
    listed = parameters(entry["signature"])
    assert list(listed) == list(real)
    assert [p.default for p in listed.values()] == [p.default for p in real.values()]


def test_names_resolve_to_functions_whatever_was_imported_first():
    importlib.import_module("portkit.runtime.ops.softmax")
    assert ops.softmax.__wrapped__ is ALL["softmax"].function
    assert ops.attention_qkvpacked.__name__ == "attention_qkvpacked"
    with pytest.raises(AttributeError, match="no operator"):
        ops.no_such_operator


CALLS = {path.stem: runpy.run_path(str(path)) for path in sorted(FIXTURES.glob("*.py"))}


def test_each_operator_has_its_fixture():
    assert set(CALLS) == set(ALL)


@pytest.mark.parametrize("name", ALL)
def test_bad_arguments_are_named(name):
    for args, argument in CALLS[name]["BAD"]:
        with pytest.raises(UsageError, match=f"{name}: argument `{argument}` must be"):
            ALL[name].function(*args)


def test_unknown_force_is_refused(monkeypatch):
    monkeypatch.setenv("PORTKIT_FORCE", "fast")
    with pytest.raises(UsageError, match="PORTKIT_FORCE"):
        ops.silu(np.zeros(2, np.float32))


@pytest.mark.parametrize("implementation", ["", *IMPLEMENTATIONS])
@pytest.mark.parametrize("name", [name for name, calls in CALLS.items() if "EMPTY" in calls])
def test_arrays_without_elements_are_taken(name, implementation, monkeypatch):
    monkeypatch.setenv("PORTKIT_FORCE", implementation)
    for args in CALLS[name]["EMPTY"]:
        tensors = [torch.from_numpy(a) if isinstance(a, np.ndarray) else a for a in args]
        expected = ALL[name].vendor(*tensors)
        torch.testing.assert_close(ALL[name].function(*tensors), expected)
        np.testing.assert_array_equal(ALL[name].function(*args), expected.numpy())


@pytest.mark.parametrize("implementation", ["", *IMPLEMENTATIONS])
def test_scalars_are_rows_of_one(implementation, monkeypatch):
    monkeypatch.setenv("PORTKIT_FORCE", implementation)
    assert ops.softmax(torch.tensor(3.0), 0) == 1.0
    assert ops.softmax(np.asarray(3.0, np.float32), -1) == 1.0
    assert ops.silu(torch.tensor(1.0)).item() == pytest.approx(0.7310586)


@pytest.mark.parametrize("implementation", ["", *IMPLEMENTATIONS])
def test_packed_attention_is_attention_of_its_parts(implementation, monkeypatch):
    monkeypatch.setenv("PORTKIT_FORCE", implementation)
    qkv = torch.randn(2, 6, 3, 4, 8)
    query, key, value = (x.transpose(1, 2) for x in qkv.unbind(2))
    expected = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    got = ops.attention_qkvpacked(qkv, is_causal=True)
    assert got.is_contiguous()
    torch.testing.assert_close(got, expected.transpose(1, 2))
    torch.testing.assert_close(torch.from_numpy(ops.attention_qkvpacked(qkv.numpy(), is_causal=True)), got)
    # Two key heads for four query heads, and the last queries of a longer sequence: the bottom right corner.
    seen = torch.ones(3, 6, dtype=torch.bool).tril(3)
    grouped = (query[:, :, :3], key[:, ::2], value[:, ::2])
    expected = torch.nn.functional.scaled_dot_product_attention(*grouped, attn_mask=seen, enable_gqa=True)
    got = ops.attention_kvpacked(qkv[:, :3, 0], qkv[:, :, 1:, ::2], is_causal=True)
    torch.testing.assert_close(got, expected.transpose(1, 2))


def test_small_tensors_go_straight_to_torch(monkeypatch):
    monkeypatch.delenv("PORTKIT_FORCE", raising=False)
    x = torch.randn(4, 5)
    assert torch.equal(ops.softmax(x, -1), torch.softmax(x, -1))
    with pytest.raises(UsageError, match="argument `dim`"):
        ops.softmax(x, 7)
    assert ops.matmul(x.to("meta"), torch.ones(5, 3, device="meta")).shape == (4, 3)


def test_leading_axes_have_to_broadcast():
    assert ops.matmul(np.ones((2, 1, 3, 4), "f"), np.ones((5, 4, 3), "f")).shape == (2, 5, 3, 3)
    with pytest.raises(UsageError, match="leading axes that broadcast"):
        ops.matmul(np.ones((2, 3, 4), "f"), np.ones((5, 4, 3), "f"))
