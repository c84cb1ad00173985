"""The group coordinator: consumer groups, their members and states, and the offsets they commit."""
