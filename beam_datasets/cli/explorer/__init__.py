"""`beam-datasets explore`: a web application that shows datasets, on this machine."""
