"""The life of one write, pure: which states follow which, what a read proves, and what may be sent again.

No clock, no socket, no file: `now` and what was read are handed in, and what comes out is a move to be recorded.
"""
