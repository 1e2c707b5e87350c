"""Questions about NVIDIA's compute capability and CUDA's version."""

from __future__ import annotations

from portkit.finding import Phase
from portkit.rewriters._references import ReferenceRule


class CapabilityCheck(ReferenceRule):
    """The program asks for a compute capability or a CUDA version.

    What: `torch.cuda.get_device_capability`, `get_arch_list`, `torch.version.cuda`.
    Why: other devices have no compute capability (some return None), and the number usually stands for
    something else: whether bfloat16 or a certain kernel works.
    Instead: ask for what is needed: `pk.is_bf16_supported()`, or try the kernel.
    Safety: nothing is rewritten.
    """

    id = "PK108"
    name = "capability_check"
    phase = Phase.OPERATOR
    triggers = (b"capability", b"get_arch_list", b"version.", b"version import", b"tf32_supported")
    what = "{name} has no meaning on other devices"
