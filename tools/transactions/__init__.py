"""Chains of programs that read messages and send results in transactions, and faults in the middle."""
