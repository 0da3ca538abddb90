"""What an organiser prints: the sheets for those who approve a poll, the poster, and its paper
form."""
