"""The kernels of a file, compiled from their source text alone: nothing of the file is imported or run."""
