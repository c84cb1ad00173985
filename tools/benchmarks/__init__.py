"""pyklient and its peers on one real broker: `make bench`. No test asserts speed."""
