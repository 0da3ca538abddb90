"""From panes to windows: when an epoch closes, what may be released, and estimates with their
errors."""
