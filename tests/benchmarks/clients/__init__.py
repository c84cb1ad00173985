"""One module a client: produce, consume and latency, set up as that client's own documents advise."""
