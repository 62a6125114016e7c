"""The twin of the remote service: the whole documented API as one independent implementation, with books.

It is served over HTTP for people and for the demo, and mounted in-process for tests and the simulation. It imports
nothing else of this project, or it would agree with our misreadings of the document. What it does where the document
says "not shown" is a setting; every way in which the service can fail is a fault that can be asked for.

Public, by module:

- `service.Twin`: `answer(request, now_s)`, `change(change, now_s)`, `violations()`, `books`, `world`.
- `settings`: `TwinRequest` in; `TwinAnswer`, `Cut` or `Hang` out. `TwinSettings`: what the document leaves open.
- `faults.Fault`, `faults.Match`: what goes wrong, and when.
- `changes`: what happens without a request (`EventChange` and the others), and stories of it (`read_story`).
- `start.built`: a twin with its dialect and story; `start.demo_world`: the built-in world.
- `world.TwinWorld`, `Tenant`, `Happening`: worlds of one's own; `TwinBooks`, `Violation`: what it says of its client.
- `app.serving`, `app.serve`: the twin on a socket.

Never says anything about how the real service is; it says what the document says, and what was set.
"""
