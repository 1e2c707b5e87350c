"""The device layer: on this machine's CPU, and on an accelerator played by a module of our own."""

from __future__ import annotations

import subprocess
import sys
import types

import pytest

torch = pytest.importorskip("torch")

import portkit.runtime as pk  # noqa: E402
from portkit.errors import PortkitError, UsageError  # noqa: E402


class FakeStream:
    def __init__(self, device=None, priority=0):
        self.device, self.priority = device, priority


class FakeEvent:
    def __init__(self, enable_timing=False):
        self.enable_timing = enable_timing


@pytest.fixture
def on_cpu(monkeypatch):
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)


@pytest.fixture
def gpu(monkeypatch):
    """Two accelerators of type "xpu" whose calls are written down in `gpu.calls`."""
    module = types.SimpleNamespace(
        calls=[], index=0, current="default", states=[torch.zeros(4), torch.ones(4)]
    )

    def note(name, result=None):
        def function(*args):
            module.calls.append((name, *args))
            return result

        return function

    def set_index(index):
        module.calls.append(("set", index))
        module.index = index

    class StreamContext:
        def __init__(self, target):
            self.target = target

        def __enter__(self):
            self.outer, module.current = module.current, self.target

        def __exit__(self, *error):
            module.current = self.outer

    accelerator = types.SimpleNamespace(
        is_available=lambda: True,
        current_accelerator=lambda: torch.device("xpu"),
        device_count=lambda: 2,
        current_device_index=lambda: module.index,
        set_device_index=set_index,
        synchronize=note("synchronize"),
        empty_cache=note("empty_cache"),
        memory_allocated=note("memory_allocated", 7),
        get_memory_info=note("get_memory_info", (3, 9)),
    )
    module.Stream, module.Event, module.stream = FakeStream, FakeEvent, StreamContext
    module.current_stream = lambda index=None: module.current
    module.default_stream = lambda index=None: "default"
    module.manual_seed, module.manual_seed_all = note("manual_seed"), note("manual_seed_all")
    module.get_rng_state = lambda index=None: module.states[module.index if index is None else index]
    module.set_rng_state = note("set_rng_state")
    module.get_device_name = lambda index=None: f"Fake {index}"
    module.is_bf16_supported = lambda: False
    module.max_memory_allocated = note("max_memory_allocated", 8)
    monkeypatch.setattr(torch, "accelerator", accelerator)
    monkeypatch.setattr(torch, "get_device_module", lambda kind: module)
    return module


@pytest.mark.parametrize(("count", "kind"), [(2, "cuda"), (0, "cpu")])
def test_asking_for_the_type_does_not_start_cuda(monkeypatch, count, kind):
    """A default `device=pk.device_type()` is evaluated at import, before CUDA_VISIBLE_DEVICES may be set."""

    def start():
        raise AssertionError("CUDA was started")

    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "is_available", start)
    monkeypatch.setattr(torch.cuda, "is_available", start)
    monkeypatch.setattr(torch.cuda, "init", start)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    assert pk.device_type() == kind
    assert pk.device() == torch.device(kind)


# --- on the CPU --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("index", [None, 0, 3, "1", "cuda:1", "cuda", "cpu", torch.device("cpu")])
def test_cpu_device_has_no_index(index):
    assert pk.device(index) == torch.device("cpu")
    assert pk.device(index).index is None


@pytest.mark.usefixtures("on_cpu")
def test_cpu_answers():
    assert (pk.device_type(), pk.is_available(), pk.device_count(), pk.current_device()) == (
        "cpu",
        False,
        0,
        0,
    )
    assert pk.is_bf16_supported()
    assert pk.device_name()
    assert pk.distributed_backend() == "gloo"
    assert pk.process_group_device(torch.device("cuda", 1)) is pk.process_group_device(0) is None
    assert pk.ddp_device_ids(1) is None
    assert not pk.is_accelerator(torch.zeros(1))
    assert not pk.is_accelerator(0)
    assert not pk.is_accelerator(None)
    packed = torch.nn.utils.rnn.pack_sequence([torch.ones(2), torch.ones(1)])
    assert pk.is_accelerator(packed) is packed.is_cuda is False


@pytest.mark.usefixtures("on_cpu")
def test_cpu_calls_do_nothing_and_raise_nothing():
    for function in (pk.synchronize, pk.empty_cache, pk.reset_peak_memory_stats):
        assert function() is None
    pk.set_device(3)
    pk.set_device("cuda:1")
    for function in (
        pk.memory_allocated,
        pk.max_memory_allocated,
        pk.memory_reserved,
        pk.max_memory_reserved,
    ):
        assert function() == 0
        assert function(1) == 0
    free, total = pk.mem_get_info()
    assert 0 < free <= total
    assert pk.memory_stats() == {}


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("index", [None, -1, 0, "cuda:1", torch.device("cpu"), torch.zeros(1)])
def test_cpu_device_index_is_a_no_op_that_nests(index):
    context = pk.device_index(index)
    with context, context:
        assert pk.current_device() == 0


@pytest.mark.usefixtures("on_cpu")
def test_cpu_seeding_leaves_the_data_order_alone():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    pk.manual_seed(5)
    pk.manual_seed_all(6)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.usefixtures("on_cpu")
def test_cpu_rng_state_round_trip():
    state = pk.get_rng_state()
    first = torch.rand(3)
    pk.set_rng_state(state)
    assert torch.equal(torch.rand(3), first)
    assert pk.get_rng_state_all() == []
    pk.set_rng_state_all([state])


@pytest.mark.usefixtures("on_cpu")
def test_rng_state_of_another_device_is_refused_with_a_warning():
    before = torch.get_rng_state()
    with pytest.warns(UserWarning, match="another kind of device"):
        pk.set_rng_state(torch.zeros(16, dtype=torch.uint8))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.usefixtures("on_cpu")
def test_cpu_streams_and_events():
    start, end = pk.Event(enable_timing=True), pk.Event(enable_timing=True)
    side = pk.Stream(priority=-1)
    outer = pk.current_stream()
    with pk.stream(side), pk.stream(side), pk.stream(None):
        assert pk.current_stream() is side
        start.record()
        sum(range(1000))
        side.wait_stream(pk.default_stream())
        end.record(side)
    assert pk.current_stream() is outer
    side.synchronize()
    assert side.query()
    assert side.record_event().query()
    assert 0 < start.elapsed_time(end) < 1000
    assert isinstance(side, pk.Stream)
    pk.record_stream(torch.zeros(1), side)
    with side:
        assert pk.current_stream() is side
    with pytest.raises(RuntimeError, match="enable_timing"):
        pk.Event().elapsed_time(end)
    with pytest.raises(RuntimeError, match="recorded"):
        pk.Event(enable_timing=True).elapsed_time(end)


@pytest.mark.usefixtures("on_cpu")
def test_cpu_float16_autocast_is_off_and_bfloat16_is_as_asked():
    a = torch.ones(2, 2)
    with pk.amp.autocast():
        assert (a @ a).dtype == torch.float32
    with pk.amp.autocast(True, torch.bfloat16):
        assert (a @ a).dtype == torch.bfloat16
    with pk.amp.autocast(False, torch.bfloat16):
        assert (a @ a).dtype == torch.float32

    @pk.amp.autocast(dtype=torch.bfloat16)
    def product():
        return a @ a

    assert product().dtype == torch.bfloat16


@pytest.mark.usefixtures("on_cpu")
def test_cpu_grad_scaler_is_disabled():
    scaler = pk.amp.GradScaler(1024.0)
    assert not scaler.is_enabled()
    assert scaler.get_scale() == 1.0
    assert scaler.scale(torch.tensor(3.0)) == 3.0


@pytest.mark.usefixtures("on_cpu")
def test_custom_fwd_with_and_without_parentheses():
    class Double(torch.autograd.Function):
        @staticmethod
        @pk.amp.custom_fwd(cast_inputs=torch.float32)
        def forward(ctx, x):
            return x * 2

        @staticmethod
        @pk.amp.custom_bwd
        def backward(ctx, grad):
            return grad * 2

    x = torch.ones(2, requires_grad=True)
    Double.apply(x).sum().backward()
    assert torch.equal(x.grad, torch.full((2,), 2.0))


@pytest.mark.usefixtures("on_cpu")
def test_cpu_map_location(tmp_path):
    assert pk.map_location() == torch.device("cpu")
    assert pk.map_location(0) == torch.device("cpu")
    assert pk.map_location("cuda:1") == torch.device("cpu")
    assert pk.map_location({"cuda:0": "cuda:1"}) == {"cuda:0": "cpu"}
    keep = lambda storage, place: storage  # noqa: E731
    assert pk.map_location(keep) is keep
    torch.save(torch.ones(2), tmp_path / "x.pt")
    assert torch.load(tmp_path / "x.pt", map_location=pk.map_location(0)).sum() == 2


# --- on an accelerator -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("index", "expected"),
    [(None, "xpu"), (1, "xpu:1"), ("1", "xpu:1"), ("cuda:1", "xpu:1"), ("cuda", "xpu"), ("cpu", "cpu")],
)
def test_device_is_the_accelerator(gpu, index, expected):
    assert pk.device(index) == torch.device(expected)


def test_accelerator_answers(gpu):
    assert (pk.device_type(), pk.is_available(), pk.device_count()) == ("xpu", True, 2)
    assert pk.device_name(1) == "Fake 1"
    assert not pk.is_bf16_supported()
    assert pk.ddp_device_ids("cuda:1") == [1]
    pk.set_device(1)
    assert pk.ddp_device_ids(None) == pk.ddp_device_ids(torch.device("xpu")) == [1]
    pk.set_device(0)
    assert pk.distributed_backend() == "xccl"
    assert pk.process_group_device("cuda:1") == torch.device("xpu:1")
    assert pk.process_group_device(torch.device("xpu")) == torch.device("xpu:0")
    assert pk.is_accelerator("npu:0")
    assert pk.is_accelerator(0)
    assert not pk.is_accelerator("meta")
    holder = types.SimpleNamespace(is_cuda=False, device=print)  # of tensors; its `device` is a method
    assert not pk.is_accelerator(holder)
    holder.data = types.SimpleNamespace(device=torch.device("xpu"))
    assert pk.is_accelerator(holder)
    assert pk.is_accelerator(types.SimpleNamespace(is_cuda=True))
    assert pk.map_location("cuda:1") == torch.device("xpu:1")
    assert pk.map_location({"cuda:0": "cuda:1"}) == {"cuda:0": "xpu:1"}


def test_device_index_restores_the_device_it_found(gpu):
    with pk.device_index(torch.device("xpu:1")):
        assert pk.current_device() == 1
        with pk.device_index("cuda:0"):
            assert pk.current_device() == 0
        assert pk.current_device() == 1
    assert pk.current_device() == 0
    gpu.calls.clear()
    for nothing in (None, -1, "cpu"):
        with pk.device_index(nothing):
            pass
    assert gpu.calls == []


def test_device_index_restores_after_an_error(gpu):
    with pytest.raises(KeyError), pk.device_index(1):
        raise KeyError
    assert pk.current_device() == 0


def test_memory_asks_the_accelerator_then_its_module(gpu):
    assert pk.memory_allocated(1) == 7
    assert pk.max_memory_allocated() == 8
    assert pk.memory_reserved() == 0
    assert pk.mem_get_info() == (3, 9)
    pk.empty_cache()
    assert gpu.calls[0] == ("memory_allocated", 1)
    assert ("empty_cache",) in gpu.calls


def test_seeds_and_states_of_all_accelerators(gpu):
    pk.manual_seed(3)
    pk.manual_seed_all(4)
    assert gpu.calls == [("manual_seed", 3), ("manual_seed_all", 4)]
    states = pk.get_rng_state_all()
    assert [s.sum().item() for s in states] == [0, 4]
    gpu.calls.clear()
    pk.set_rng_state_all([*states, states[0]])
    assert [call[0] for call in gpu.calls] == ["set_rng_state"] * 2
    assert gpu.calls[1][2] == 1


def test_streams_are_the_accelerators_own(gpu):
    side = pk.Stream(device=1, priority=-1)
    assert isinstance(side, FakeStream)
    assert (side.device, side.priority) == (torch.device("xpu:1"), -1)
    with pk.stream(side), pk.stream(side), pk.stream(None):
        assert pk.current_stream() is side
    assert pk.current_stream() == "default"
    assert pk.Event(True, blocking=True).enable_timing


def test_autocast_and_scaler_use_the_accelerators_type(gpu, monkeypatch):
    made = {}
    monkeypatch.setattr(torch.amp, "is_autocast_available", lambda kind: True)
    monkeypatch.setattr(torch, "autocast", lambda kind, **options: made.setdefault(kind, options))
    monkeypatch.setattr(torch.amp, "GradScaler", lambda kind, **options: options)
    pk.amp.autocast(False)
    assert made == {"xpu": {"dtype": torch.float16, "enabled": False, "cache_enabled": True}}
    assert pk.amp.GradScaler(8.0)["init_scale"] == 8.0
    assert pk.amp.GradScaler()["enabled"]


def test_functions_without_an_index_are_called_without_one(gpu):
    torch.accelerator.memory_allocated = lambda: 5  # as torch.mps.current_allocated_memory
    assert pk.memory_allocated(0) == 5


def test_real_failures_go_up(gpu):
    def fail():
        raise RuntimeError("device lost")

    torch.accelerator.synchronize = fail
    with pytest.raises(RuntimeError, match="device lost"):
        pk.synchronize()


# --- bad input and laziness --------------------------------------------------------------------------


@pytest.mark.parametrize("bad", ["cuda:x", "a/b", "", object(), 1.5 + 2j])
def test_what_is_no_device_is_refused(gpu, bad):
    with pytest.raises(UsageError, match="is not a device"):
        pk.device(bad)


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such"):
        pk.no_such


def test_every_public_name_exists():
    for name in pk.__all__:
        assert getattr(pk, name) is not None
    assert set(pk.__all__) <= set(dir(pk))


def test_without_torch_the_call_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(PortkitError, match="torch is not installed"):
        pk.device()


def test_importing_the_runtime_imports_neither_torch_nor_llvm():
    code = (
        "import sys, portkit.runtime as pk; pk.jit; pk.amp\n"
        "print([m for m in ('torch', 'llvmlite') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_torch_2_6_has_all_that_is_needed(gpu):
    """`torch.accelerator` had no memory functions then, and `current_accelerator` no arguments."""
    for name in ("memory_allocated", "get_memory_info", "empty_cache"):
        delattr(torch.accelerator, name)
    gpu.memory_allocated = lambda index=None: 5 if index is None else 6
    gpu.mem_get_info = lambda index=None: (1, 2)
    gpu.empty_cache = lambda: gpu.calls.append("emptied")
    pk.empty_cache()
    assert gpu.calls == ["emptied"]
    assert (pk.memory_allocated(), pk.memory_allocated(1), pk.mem_get_info()) == (5, 6, (1, 2))
    assert pk.device(0) == torch.device("xpu:0")


def test_nothing_of_torch_is_replaced():
    """Libraries that look which device there is would be misled."""
    program = """
import torch
owners = [torch, torch.cuda, torch.Tensor, torch.nn.Module, torch.amp, torch.cuda.amp, torch.distributed]
before = [dict(vars(owner)) for owner in owners]
import portkit.runtime as pk
pk.device(), pk.synchronize(), pk.amp.autocast(), pk.ops.softmax(torch.ones(2), -1), pk.nn.LayerNorm(2)
for owner, names in zip(owners, before):
    for name, value in names.items():
        if not isinstance(value, (bool, int)):  # whether something has been started yet
            assert vars(owner)[name] is value, (owner, name)
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True)
