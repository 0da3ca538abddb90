"""What is written for people from a survey: reports."""
