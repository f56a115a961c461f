"""The checks of ``engram doctor``: the likeliest mistakes, each with its mend. None writes or waits long."""
