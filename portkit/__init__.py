"""Move training code off CUDA: scan it, migrate it, run it on any device, prove it computes the same."""

__version__ = "0.1.0"
