"""Tables from many shards of traces."""
