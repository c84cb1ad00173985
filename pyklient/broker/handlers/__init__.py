"""What the broker does for each request: a module per family of APIs, and the table of them in ``apis``."""
