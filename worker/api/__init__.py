"""The client of the remote service: what its document says, what it leaves open, and the requests themselves.

Everything that depends on the document names its section; everything the document leaves open is a named assumption.
It never decides what to read or write, and never repeats a write by itself.
"""
