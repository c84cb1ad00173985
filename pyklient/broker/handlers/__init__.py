"""The handlers of requests: a module for each family of APIs, and the table of all handlers in ``apis``."""
