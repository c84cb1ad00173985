"""Programs that write pages and modules from the code: `make generated`."""
