"""Where a person's data may be touched: a confined process, and everything on either side of its
pipes."""
