"""One module a client, set up as that client's own documents advise. Each has TASKS: a task → its function.

A producing task returns only when the broker has confirmed every record, a consuming one when it has counted
every record; each raises where that fails.
"""
