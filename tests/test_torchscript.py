"""Migrated code that TorchScript compiles: operators and modules give way to torch's own kernels."""

from __future__ import annotations

import io
import textwrap
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import executing  # noqa: E402

import portkit.runtime as pk  # noqa: E402
from portkit.runtime import _scripting, nn  # noqa: E402
from portkit.runtime.ops import _scripted, operators  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # torch.jit is deprecated

CALLS = {
    "softmax": "pk.ops.softmax(x, dim=-1), pk.ops.softmax(x, -1, torch.float64)",
    "log_softmax": "pk.ops.log_softmax(x, dim=1)",
    "gelu": "pk.ops.gelu(x), pk.ops.gelu(x, approximate='tanh')",
    "silu": "pk.ops.silu(x)",
    "matmul": "pk.ops.matmul(x, x.t())",
    "linear": "pk.ops.linear(x, x), pk.ops.linear(x, x, x[:, 0])",
    "layer_norm": "pk.ops.layer_norm(x, [4]), pk.ops.layer_norm(x, x.shape[-1:], x[0], x[1], 1e-3)",
    "rms_norm": "pk.ops.rms_norm(x, [4]), pk.ops.rms_norm(x, weight=x[0], eps=1e-3)",
    "cross_entropy": "pk.ops.cross_entropy(x, x.argmax(1), reduction='none', label_smoothing=0.1)",
    "scaled_dot_product_attention": """
        pk.ops.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None], is_causal=True),
        pk.ops.scaled_dot_product_attention(
            x[None, :2, None], x[None, :, None], x[None, :, None],
            is_causal=True, scale=0.5, layout="bshd", align="bottom-right", enable_gqa=True,
        )""",
}


def test_each_operator_has_what_is_compiled_in_its_place() -> None:
    assert set(CALLS) == {o.name for o in operators().values() if vars(_scripted).get(o.name)}
    assert set(CALLS) == set(operators())


@pytest.mark.parametrize("name", CALLS)
def test_operator_in_a_scripted_function(name: str, tmp_path: Path) -> None:
    program = textwrap.dedent("""
        import torch
        import portkit.runtime as pk

        def run(x):
            return [{calls}]
    """).format(calls=CALLS[name])
    run = executing.load(program, tmp_path / "program.py")["run"]
    scripted = torch.jit.script(run)
    x = torch.linspace(-2, 2, 16).reshape(4, 4)
    executing.same([*run(x)], [*scripted(x)], name)
    torch.jit.save(scripted, io.BytesIO())


@pytest.mark.parametrize("name", sorted(nn.modules()))
def test_module_in_a_scripted_model(name: str) -> None:
    arguments = {"Linear": (4, 4), "LayerNorm": (4,), "RMSNorm": (4,), "Softmax": (-1,)}.get(name, ())
    model = torch.nn.Sequential(getattr(pk.nn, name)(*arguments), torch.nn.Identity())
    x = torch.linspace(-2, 2, 16).reshape(4, 4)
    if name == "CrossEntropyLoss":
        scripted = torch.jit.script(model[0])
        executing.same(model[0](x, x.argmax(1)), scripted(x, x.argmax(1)), name)
        return
    state = {key: value.data_ptr() for key, value in model.state_dict().items()}
    expected = model(x)
    scripted = torch.jit.script(model)
    executing.same(expected, scripted(x), name)
    assert {key: value.data_ptr() for key, value in scripted.state_dict().items()} == state
    torch.jit.save(scripted, io.BytesIO())


def test_a_subclass_of_the_users_is_compiled_as_it_is() -> None:
    class Twice(pk.nn.LayerNorm):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return input * 2

    x = torch.ones(2, 4)
    assert torch.equal(torch.jit.script(Twice(4))(x), 2 * x)


DEVICES = """
import torch
import portkit.runtime as pk

class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        y = torch.ones(2, 3, device=pk.device())
        if pk.is_accelerator(x):
            x = x.to(pk.device(1))
        return x.to(pk.device(0)) + y, pk.device_type()
"""


def test_questions_about_the_device_are_answered_when_a_model_is_compiled(tmp_path: Path) -> None:
    model = executing.load(DEVICES, tmp_path / "program.py")["Model"]()
    scripted = torch.jit.script(model)
    x = torch.rand(2, 3)
    executing.same([*model(x)], [*scripted(x)], "device")
    torch.jit.save(scripted, io.BytesIO())


def test_answer_on_an_accelerator(tmp_path: Path) -> None:
    made = [torch.jit.script(_scripting._made(name, "xpu")) for name in ("device", "device_type")]
    assert (made[0](), made[0](1), made[1]()) == (torch.device("xpu"), torch.device("xpu:1"), "xpu")
