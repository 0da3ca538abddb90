"""What randomized answers depend on: regressions, correlation, margins and imputation."""
