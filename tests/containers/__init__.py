"""The system suite against a broker in a container."""
