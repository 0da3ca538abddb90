"""One file per target: `seeds`, `check`, and how long and how often it is run."""
