"""Estimates of survey designs and samples: rates by group, weights, strata and clusters."""
