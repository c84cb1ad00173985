"""Reads topics: the source of ``format("pyklient")``, in batches and as a stream."""
