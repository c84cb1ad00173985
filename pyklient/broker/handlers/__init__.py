"""The handlers of requests, in one module for each family of APIs. ``apis`` has the table of all handlers."""
