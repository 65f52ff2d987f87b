"""Records: shards and their readers."""
