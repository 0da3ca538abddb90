"""The analyst's side: shares joined by message id, counted into panes, added up into windows, served by HTTP."""
