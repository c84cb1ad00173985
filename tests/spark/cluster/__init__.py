"""The data source on a cluster whose nodes have no pyklient: it comes with the job."""
