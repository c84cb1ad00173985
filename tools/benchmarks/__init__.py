"""pyklient and its peers on one real broker: `make bench`. Speed is shown here, never asserted in a test."""
