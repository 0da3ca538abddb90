"""From counts of reports to proportions with error bars."""
