"""The analyst's side: shares are joined by message id, counted into panes, added up into windows
and served over HTTP."""
