"""The data source on a cluster whose nodes have no pyklient: the job brings it."""
