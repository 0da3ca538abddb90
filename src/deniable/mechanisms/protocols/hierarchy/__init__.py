"""Trees over ordered values, whose nodes are reported level by level."""
