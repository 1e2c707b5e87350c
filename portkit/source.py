"""Files to look at: discovery, decoding, and notebooks split into cells."""

from __future__ import annotations

from enum import Enum


class Kind(str, Enum):
    """What a file is, as far as rules care."""

    PYTHON = "python"
    NOTEBOOK = "notebook"
    REQUIREMENTS = "requirements"
    YAML = "yaml"
    JSON = "json"
    TOML = "toml"
    SHELL = "shell"
    DOCKERFILE = "dockerfile"
    CUDA = "cuda"
    CPP = "cpp"
    OTHER = "other"
