"""pyklient and other clients on the same topics and in the same groups."""
