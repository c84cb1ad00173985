"""Kills mirrors and their brokers, and measures mirrors."""
