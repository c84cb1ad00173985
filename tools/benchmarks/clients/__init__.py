"""One module for each client, set up as its documentation recommends. TASKS maps tasks to functions.

A produce task returns when the broker has confirmed every record, and a consume task when it has counted
every record. Each raises an error if that fails.
"""
