"""What distributed training needs to know of the device: backend, device ids, where checkpoints load to."""

from __future__ import annotations

from typing import Any

from portkit.runtime._torch import torch
from portkit.runtime.devices import current_device, device, device_type, index_of, is_available


def distributed_backend() -> str:
    """The default process-group backend of the device: "nccl", "xccl", "hccl", ...; "gloo" on the CPU.

    Also "gloo" where this build of torch lacks the device's backend (NCCL on Windows).
    """
    dist = torch().distributed
    if not dist.is_available():
        return "gloo"
    backend = str(dist.get_default_backend_for_device(device_type()))
    if backend == "nccl" and not dist.is_nccl_available():
        return "gloo"
    return backend


def ddp_device_ids(index: Any) -> list[int] | None:
    """`device_ids` of DistributedDataParallel: `[index]` on an accelerator, None on the CPU (it refuses ids).

    `index` is an int, string, device or None; without an index it is the current accelerator, which is also
    what DistributedDataParallel makes of `[None]` and `[torch.device("cuda")]`.
    """
    if not is_available():
        return None
    number = index_of(index)
    return [current_device() if number is None else number]


def process_group_device(device: Any) -> Any:
    """`device_id` of `init_process_group`: the accelerator with its index, None on the CPU (it is refused).

    `device` is an int, string, device or None; without an index it is the current accelerator.
    """
    ids = ddp_device_ids(device)
    return None if ids is None else torch().device(device_type(), ids[0])


def map_location(location: Any = None) -> Any:
    """`map_location` of `torch.load` for the device in use.

    None, an index, "cuda", "cuda:1" or a device give that accelerator, or the CPU where there is none; "cpu"
    stays; the values of a dict are mapped likewise (its keys are tags in the file); a function is kept.
    """
    if isinstance(location, dict):
        return {tag: str(map_location(place)) for tag, place in location.items()}
    if callable(location):
        return location
    return device(location)
