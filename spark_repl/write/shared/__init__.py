"""Delta tables that have several tables of the source as shards, of one channel or of several."""
