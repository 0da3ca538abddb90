"""Documents around a survey: the form by which it was asked, and reports of it."""
