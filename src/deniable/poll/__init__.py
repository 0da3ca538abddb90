"""A poll by link: a question file, the page that asks it, its link, its codes, and the checks from
outside."""
