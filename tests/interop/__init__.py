"""pyklient and other people's clients on the same topics and in the same groups."""
