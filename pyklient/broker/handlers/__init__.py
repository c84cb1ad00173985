"""A handler for each API: a module for each family of APIs, and the table of all of them in ``apis``."""
