"""One suite for every broker, and what only some of them can show."""
