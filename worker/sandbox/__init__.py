"""The twin of the remote service: the whole documented API as one independent implementation, with books.

It is served over HTTP for people and for the demo, and mounted in-process for tests and the simulation. It imports
nothing else of this project, or it would agree with our misreadings of the document. What it does where the document
says "not shown" is a setting; every way in which the service can fail is a fault that can be asked for.

Public, by module:

- `service.Service`: the twin: `answer(request, now_s)`, `change(change, now_s)`, `violations()`, `books`, `world`.
- `delivery`: `TwinRequest` in; `Answer`, `Cut` or `Hang` out.
- `settings.Settings`, `settings.User`: what the document leaves open.
- `faults.Fault`, `faults.Match`, `faults.KINDS`: what goes wrong, and for which requests.
- `changes`: what happens without a request: `EventChange`, `PartnerChange`, `ResetChange` and the others.
- `story.read_story`, `story.check_story`: stories from YAML; `demo.demo_world`, `demo.demo_story`: the built-in one.
- `world.World`, `world.Tenant`, `world.Happening`: worlds of one's own.
- `books.Books`, `watch.Violation`: what the twin has to say about its client.
- `transport.TwinTransport`: the twin under an httpx client; `server.serving`, `server.run_sandbox`: on a socket.

Never says anything about how the real service is; it says what the document says, and what was set.
"""
