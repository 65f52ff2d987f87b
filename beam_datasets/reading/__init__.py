"""Reading: datasets and streams, the orders of their examples, and iterators whose position can be saved."""
