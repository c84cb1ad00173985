"""The system suite on a broker in a container."""
