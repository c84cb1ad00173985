"""Programs that run Spark against a real broker: benchmarks, kills, memory."""
