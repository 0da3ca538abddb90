"""From the bodies of uploads to blocks in the log: admission, quotas, ids seen, and the spool."""
