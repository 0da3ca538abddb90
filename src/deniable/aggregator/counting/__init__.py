"""From the blocks of proxies' logs to panes: joining shares by message id, counting, and
accounts that balance."""
