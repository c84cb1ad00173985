"""How much memory a Python worker takes that reads more than it could hold."""
