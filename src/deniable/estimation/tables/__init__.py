"""Tables of several attributes, and statistics derived from them."""
