"""The group coordinator: consumer groups, their members and rebalances, and the offsets that they commit."""
