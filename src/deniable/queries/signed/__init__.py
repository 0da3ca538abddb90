"""What a signature covers: canonical bytes, keys and rings, signed queries, envelopes and
permissions."""
