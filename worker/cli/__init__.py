"""The commands: one file each, and `wiring`, which builds the parts and hands them in.

Data goes to stdout, everything else to stderr. Every error of the tree in `worker.model.errors` is caught in one place,
`app.main`, which prints what, where and what to do now, and ends with the error's exit code. A module is imported when
its command is called; this one imports nothing.
"""
