"""Stands in for fsspec: one file system in memory, memory://, with the functions that wane_ray uses."""
