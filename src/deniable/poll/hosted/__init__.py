"""A poll inside somebody else's survey software: the answer is randomized in the respondent's
browser, and the survey's own field stores what the coins said."""
