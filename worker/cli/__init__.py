"""The commands: `app` is the program and knows where each command is, `wiring` builds the parts and hands them in.

Data goes to stdout, everything else to stderr. Every error of the tree in `worker.model.errors` is told in one place,
`app.main`: what, where and what to do now; it ends with the error's exit code. A module is imported when a command of
it is called, and no command knows the program; this one imports nothing.
"""
