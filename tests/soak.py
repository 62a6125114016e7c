"""Two hours of real processes with everything going wrong now and then: does what a worker takes stay the same?

One sandbox and two workers, each with a partner and an SQLite ledger of its own. The service spoils answers to both:
lost, late, slow, 429, 5xx, bodies that are none. One worker is also killed, ended, frozen, and has a full disk; the
other one lives through it all, so that a leak has time to show. Every 15 seconds both are measured from outside, and an
operator resolves what waits. The sandbox's books are the judge: one effect for each change that calls for one.

``python -m tests.soak --minutes 120 --samples FILE`` plays, and appends a line of JSON for each measurement. With
``--sum`` it prints what FILE shows so far; with ``--record`` too, it keeps that in benchmarks/recorded/soak.json, of
which `make docs` draws docs/soak.svg. Linux only.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import httpx

from tests.acceptance.processes import WORKER, Home, Sandbox, free_port, home, room, sandbox
from tests.reference.pages import ROOT
from tests.reference.soak import MEASURES, RECORDED, verdict

EVERY_S, ROW_S, OLD_S, FEW = 15.0, 120.0, 45.0, 300
"""Between two measurements; what one row of the record sums up; a process younger than that is still starting, and a
ledger of fewer records is mostly empty tables and log."""
CAUSE_EVERY_S, PAUSED, BOOSTED = 4.0, 14, 5
KILLED, SPARED = "killed", "left alone"
PARTNERS = {KILLED: "partner-id-aurora-live", SPARED: "partner-id-harbour-hall"}
FINAL = ("confirmed", "unconfirmed", "rejected", "refused", "skipped", "cancelled")
RULES = """rules:
  - {id: pause-cancelled, when: event.status == 'cancelled', do: [pause]}
  - {id: boost-new, on_change: {fact: suggested_tcs, by: [tc]}, when: setup.state == 'DRAFT', do: [boost]}
"""
DRAFT = {"goal": "ROAS", "total_budget": 300, "state": "DRAFT"}
SURGE = "{events: 10000, within: 10m}"
GENTLE = {"settle": "8s", "surge": SURGE, "writes_per_hour": 10000, "max_attempts": 3, "evidence_within": "60s"}
SPOILED_WRITES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("answer_before", {"status": 429}),
    ("answer_after", {"status": 429, "retry_after": 3}),
    ("answer_before", {"status": 503}),
    ("answer_after", {"status": 502}),
    ("late_effect", {"status": 500, "after_s": 5.0}),
    ("cut_before", {}),
    ("cut_after", {}),
    ("cut_body", {}),
    ("hang_before", {}),
    ("hang_after", {}),
    ("slow", {"delay_s": 1.5}),
    ("slow", {"delay_s": 5.0}),
    ("garbage", {}),
    ("expired_token", {}),
)
SPOILED_READS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("answer_before", {"status": 500}),
    ("answer_before", {"status": 429, "retry_after": 5}),
    ("cut_before", {}),
    ("cut_body", {}),
    ("hang_before", {}),
    ("slow", {"delay_s": 2.0}),
    ("garbage", {}),
    ("null_body", {}),
    ("cut_json", {}),
    ("half_page", {}),
    ("missing_fields", {"fields": ["status", "state", "tc"]}),
    ("wrong_types", {"fields": ["status", "state", "tc"]}),
)
FORGIVEN = ("task_without_put",)
"""After a death between record and byte nobody knows whether a PUT left; its task is read all the same."""
BEFALLS = ("killed", "ended", "frozen", "frozen", "frozen and killed", "full disk")


@dataclass(slots=True)
class Item:
    """One event of a house. ``causes``: how often something called for a write. ``looks``: clean reads since then."""

    boosted: bool
    state: str = "tidied"
    causes: int = 0
    before: int = 0
    since: float = 0.0
    looks: Counter[str] = field(default_factory=Counter)


class House:
    """A worker with its ledger, its events and its troubles."""

    def __init__(self, name: str, folder: Path, box: Sandbox, events: Sequence[str], chance: Random) -> None:
        self.name, self.partner, self.box, self.chance = name, PARTNERS[name], box, chance
        folder.mkdir()
        self.where: Home = home(folder, box, (RULES,), timeout="3s", **GENTLE)
        self.port = free_port()
        self.where.told(f"partners: [{self.partner}]\nweb: {{listen: '127.0.0.1:{self.port}'}}")
        self.items = {eid: Item(boosted=number >= PAUSED) for number, eid in enumerate(events)}
        self.counts: Counter[str] = Counter()
        self.asked: dict[int, float] = {}
        self.process: subprocess.Popen[bytes] | None = None
        self._log = (folder / "log.txt").open("ab")
        self._start_at = self._cause_at = self._befall_at = 0.0
        self._over: list[tuple[float, str]] = []
        self._began, self._last = 0.0, dict[str, float]()

    def begin(self, now: float) -> None:
        for eid, item in self.items.items():
            self._tidy(eid, item, now)
        self._start(now)
        self._cause_at, self._befall_at = now + 45.0, now + 90.0

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(30)
            self.process.kill()
        self._log.close()

    def step(self, now: float, *, more: bool) -> None:
        """What is due at this moment. ``more``: something new may still happen."""
        assert self.process is not None
        if self.process.poll() is not None:
            if self._start_at < self._began:
                self.counts["ends"] += 1
                self._start_at = now + self.chance.choice([0.0, 0.0, 2.0, 10.0])
            if now >= self._start_at:
                self._start(now)
        for due, what in [one for one in self._over if one[0] <= now]:
            self._over.remove((due, what))
            self._recover(what)
        if not more:
            return
        if self.name == KILLED and now >= self._befall_at:
            self._befall_at = now + self.chance.uniform(40.0, 160.0)
            self._befall(now)
        idle = [eid for eid, item in self.items.items() if item.state == "idle"]
        if now >= self._cause_at and idle:
            self._cause_at = now + self.chance.expovariate(1 / CAUSE_EVERY_S)
            self._cause(self.chance.choice(idle), now)

    def _start(self, now: float) -> None:
        self._began = now
        command = [*WORKER, "--config", str(self.where.config), "run"]
        self.process = subprocess.Popen(command, stdout=self._log, stderr=self._log, env=self.where.environ())
        self.counts["starts"] += 1

    def _befall(self, now: float) -> None:
        assert self.process is not None
        what, running = self.chance.choice(BEFALLS), self.process
        if running.poll() is not None:
            return
        self.counts[what] += 1
        if what == "killed":
            running.kill()
        elif what == "ended":
            running.terminate()
        elif what == "full disk":
            room(running, 1)
            self._over.append((now + self.chance.uniform(1.0, 6.0), "full disk"))
        else:
            running.send_signal(signal.SIGSTOP)
            self._over.append((now + self.chance.uniform(0.5, 20.0), what))

    def _recover(self, what: str) -> None:
        assert self.process is not None
        with suppress(ProcessLookupError):
            if what == "full disk":
                room(self.process)
            elif what == "frozen":
                self.process.send_signal(signal.SIGCONT)
            else:
                self.process.kill()

    def _cause(self, eid: str, now: float) -> None:
        """Something happens that calls for one write; perhaps its answer will be spoiled."""
        item = self.items[eid]
        item.causes += 1
        item.state, item.since = "wanted", now
        self.counts["changes"] += 1
        if self.chance.random() < 0.5:
            kind, params = self.chance.choice(SPOILED_WRITES)
            method, path = ("POST", f"/{eid}/boost$") if item.boosted else ("PUT", f"/{eid}/client_campaign_status$")
            self.counts["spoiled answers to writes"] += 1
            self._fault(kind, method, path, params, 1 if self.chance.random() < 0.9 else 3)
        mark: dict[str, Any] = {"hall_name": f"hall {item.causes}"}  # the books enter when, under this name
        if item.boosted:
            self._change(eid, "world", set=mark, suggested_tcs=[{"tc": f"set {item.causes}", "tc_run_id": 1}])
        else:
            self._change(eid, "world", set={**mark, "status": "cancelled"})

    def spoil_reads(self) -> None:
        kind, params = self.chance.choice(SPOILED_READS)
        self.counts["spoiled reads"] += 1
        path = self.chance.choice(["/events/$", "/setup_processes/", "suggested", "."])
        self._fault(kind, "GET", path, params, self.chance.randint(1, 4))

    def storm(self) -> None:
        self.counts["storms"] += 1
        params = {"for_s": self.chance.uniform(5, 20), "hidden": self.chance.random() < 0.5, "retry_after": 3}
        self._fault("storm", None, ".", params, 1)

    def _fault(self, kind: str, method: str | None, path: str, params: dict[str, Any], times: int) -> None:
        match = {"path": path, "partner": self.partner, **({"method": method} if method else {})}
        self.box.post("faults", {"kind": kind, "match": match, "params": params, "times": times})

    def _change(self, eid: str, by: str, **what: object) -> None:
        self.box.post("change", {"event": eid, "partner": self.partner, "by": by, **what})

    def _tidy(self, eid: str, item: Item, now: float) -> None:
        """A person brings the event back to how it was, so that the next change calls for a write again."""
        if item.boosted:
            self._change(eid, "person", setup=DRAFT)
        else:
            self._change(eid, "person", set={"status": "active", "client_campaign_status": "RUNNING"})
        item.state, item.since = "tidied", now
        item.looks.clear()

    def seen(self, requests: Sequence[dict[str, Any]], now: float) -> None:
        """Events rest until the worker has had several whole answers about them: what it never saw asks for nothing."""
        for one in requests:
            if one["partner"] != self.partner or one["method"] != "GET" or one["status"] != 200 or one["fault"]:
                continue
            parts = one["path"].split("/")
            for eid, item in self.items.items():
                if item.state == "tidied" and now - item.since > EVERY_S:
                    item.looks["list" if one["path"] == "/events/" else parts[1] if eid in parts else ""] += 1
        for item in self.items.values():
            needed = ("list", "setup_processes") if item.boosted else ("list",)
            if item.state == "tidied" and all(item.looks[what] >= 4 for what in needed):
                item.state = "idle"

    def settle(self, writes: Sequence[dict[str, Any]], effects: Counter[tuple[str, str]], now: float) -> None:
        """What has ended is judged and tidied; what waits for an operator is resolved after a while."""
        for one in writes:
            item = self.items.get(one["event"])
            if item is None:  # an event that nothing was to happen to: half a list of clusters is another list
                continue
            done = effects[self.partner, one["event"]] == item.causes
            if one["id"] <= item.before:
                continue
            if one["state"] in FINAL and item.state == "wanted":
                item.before = one["id"]
                self.counts[one["state"]] += 1
                if not done:
                    self.counts["not as many effects as changes"] += 1
                    _say(f"{self.name}: {one}: effects {effects[self.partner, one['event']]}, changes {item.causes}")
                    item.causes = effects[self.partner, one["event"]]
                self._tidy(one["event"], item, now)
            elif one["state"] == "needs_human" and now - self.asked.setdefault(one["id"], now) > EVERY_S:
                del self.asked[one["id"]]
                self.counts["resolved by an operator"] += 1
                verdict = "--applied" if done else "--not-applied"
                self.where.call("resolve", str(one["id"]), verdict, "--because", "the books say so")

    @property
    def open(self) -> list[str]:
        return [eid for eid, item in self.items.items() if item.state == "wanted"]

    def measured(self, now: float, elapsed_s: float) -> dict[str, Any]:
        """What the process takes, and what it says of itself."""
        assert self.process is not None
        pid, age_s = self.process.pid, now - self._began
        ledger = sum(one.stat().st_size for one in self.where.folder.glob("worker.db*"))
        found: dict[str, Any] = {"counts": dict(self.counts), "open": len(self.open), "ledger_bytes": ledger}
        if self.process.poll() is not None or any("frozen" in what for _, what in self._over):
            return found
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text("ascii").splitlines())
        cpu_s = _cpu_s(pid)
        found |= {
            "age_s": age_s,
            "rss_mb": int(status["VmRSS"].split()[0]) * 1024 / 1e6,
            "threads": int(status["Threads"]),
            "handles": len(list(Path(f"/proc/{pid}/fd").iterdir())),
        }
        if age_s > OLD_S and self._last.get("pid") == pid:
            found["cpu_percent"] = 100 * (cpu_s - self._last["cpu_s"]) / elapsed_s
        with suppress(httpx.TransportError):  # one that has just begun has no page yet
            found |= self._told(pid)
        self._last |= {"pid": pid, "cpu_s": cpu_s}
        return found

    def _told(self, pid: int) -> dict[str, float]:
        """From /metrics: the records, and the mean of each histogram since the last measurement of the same process."""
        began = time.monotonic()
        text = httpx.get(f"http://127.0.0.1:{self.port}/metrics", timeout=10).text
        found = {"page_ms": 1000 * (time.monotonic() - began)}
        sums: Counter[str] = Counter()
        for line in text.splitlines():
            name, _, value = line.rpartition(" ")
            if not name.startswith("#"):
                sums[name.partition("{")[0].removeprefix("campaign_worker_")] += float(value)  # type: ignore[assignment]
        found["records"] = sums["log_records"]
        for key, name in (("cycle_ms", "cycle_seconds"), ("commit_ms", "ledger_commit_seconds")):
            now = {part: float(sums[f"{name}_{part}"]) for part in ("sum", "count")}
            before = {part: self._last.get(f"{key} {part}", 0.0) for part in ("sum", "count")}
            if self._last.get("pid") == pid and now["count"] > before["count"]:
                found[key] = 1000 * (now["sum"] - before["sum"]) / (now["count"] - before["count"])
            self._last |= {f"{key} {part}": value for part, value in now.items()}
        return found


class Soak:
    """The whole, until it is over."""

    def __init__(self, box: Sandbox, folder: Path, samples: Path, seed: int) -> None:
        self._box, self._samples, self._chance = box, samples, Random(seed)
        self._houses = [
            House(name, folder / name.replace(" ", "-"), box, events_of(box, partner), Random(f"{seed} {name}"))
            for name, partner in PARTNERS.items()
        ]
        self._request = self._outside = self._effect = 0
        self._caused: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
        self._effects: Counter[tuple[str, str]] = Counter()
        self._measured_at = self._began = 0.0
        self._repeated = self._wrong = 0

    def play(self, minutes: float) -> None:
        """Until so many minutes have gone, and then until nothing is open, for at most four more."""
        self._began = self._measured_at = time.monotonic()
        reads_at = storm_at = self._began + 60.0
        ends = self._began + 60.0 * minutes
        try:
            for house in self._houses:
                house.begin(self._began)
            while (now := time.monotonic()) < ends + 240.0:
                if now > ends and not any(house.open for house in self._houses):
                    break
                with self._going_on():
                    for house in self._houses:
                        house.step(now, more=now < ends)
                with self._going_on():
                    if reads_at < now < ends:
                        reads_at = now + self._chance.uniform(10.0, 40.0)
                        self._chance.choice(self._houses).spoil_reads()
                    if storm_at < now < ends:
                        storm_at = now + self._chance.uniform(180.0, 420.0)
                        self._chance.choice(self._houses).storm()
                if now - self._measured_at >= EVERY_S:
                    with self._going_on():
                        self._tick(now)
                    self._measured_at = now
                time.sleep(1.0)
            self._tick(time.monotonic())
            for house in self._houses:
                _say(f"{house.name}: {house.where.call('log', '--verify', check=None).stdout.strip()}")
        finally:
            for house in self._houses:
                house.close()

    @contextmanager
    def _going_on(self) -> Iterator[None]:
        """What goes wrong with the driver itself is said and counted, and ends nothing."""
        try:
            yield
        except Exception as wrong:  # noqa: BLE001 - hours may not end for one answer that came late
            self._wrong += 1
            _say(f"the driver: {type(wrong).__name__}: {str(wrong)[:600]}")

    def _tick(self, now: float) -> None:
        requests = self._box.get(f"requests?since={self._request}")
        self._request = max([self._request, *(one["seq"] for one in requests)])
        writes = {one.name: one.where.writes("--partner", one.partner) for one in self._houses}
        latencies = self._read_books()  # after the writes: what has ended there has its effect here
        sample: dict[str, Any] = {"at_s": now - self._began, "houses": {}}
        for house in self._houses:
            with self._going_on():
                house.seen(requests, now)
                house.settle(writes[house.name], self._effects, now)
            with self._going_on():
                sample["houses"][house.name] = house.measured(now, now - self._measured_at)
            sample["houses"].setdefault(house.name, {})["latency_s"] = latencies[house.partner]
        sample |= {"repeated": self._repeated, "effects": self._effects.total(), "requests": self._request}
        sample |= {"driver_s": time.process_time(), "sandbox_s": _cpu_s(self._box.process.pid), "wrong": self._wrong}
        sample["violations"] = dict(Counter(one["kind"] for one in self._box.get("violations")))
        with self._samples.open("a", encoding="utf-8") as file:
            file.write(json.dumps(sample) + "\n")

    def _read_books(self) -> defaultdict[str, list[float]]:
        """New effects are counted. How long each took after its change, by partner, by the sandbox's own clock."""
        books = self._box.get("books")
        self._repeated = books["repeated"]
        for one in books["outside"][self._outside :]:
            if one["target"] == "hall_name":
                self._caused[one["partner"], one["eid"]].append(one["at_s"])
        found: defaultdict[str, list[float]] = defaultdict(list)
        houses = {house.partner: house for house in self._houses}
        for one in books["list"][self._effect :]:
            where = one["partner"], one["eid"]
            if one["eid"] not in houses[one["partner"]].items:
                houses[one["partner"]].counts["effects on other events"] += 1
                continue
            self._effects[where] += 1
            if self._caused[where]:
                found[one["partner"]].append(round(one["at_s"] - self._caused[where].pop(0), 2))
        self._outside, self._effect = len(books["outside"]), len(books["list"])
        return found


def events_of(box: Sandbox, partner: str) -> list[str]:
    """Events that only this partner has."""
    first = partner == PARTNERS[KILLED]
    return [f"e{number}" for number in (range(11, 30) if first else range(91, 110))]


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _say(what: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {what}\n")


def play(minutes: float, samples: Path, seed: int) -> None:
    """Plays it. SIGTERM ends it in good order. Ledgers and logs stay, for whoever has to find out what was wrong."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    commit = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    head = {"commit": commit.stdout.strip(), "seed": seed, "minutes": minutes, "at": time.strftime("%Y-%m-%d %H:%M")}
    samples.write_text(json.dumps(head) + "\n", "utf-8")
    _say(f"{head} in {folder}")
    with sandbox(folder, "--events", "120", forgiven=FORGIVEN) as box:
        Soak(box, folder, samples, seed).play(minutes)


def summed(samples: Path) -> dict[str, Any]:
    """What the samples show: what befell each worker, what the books say, and a row for each two minutes."""
    head, *lines = [json.loads(line) for line in samples.read_text("utf-8").splitlines()]
    houses: dict[str, Any] = lines[-1]["houses"]
    changes = sum(one["counts"]["changes"] for one in houses.values())
    waiting = sum(one["open"] for one in houses.values())
    effects, repeated = lines[-1]["effects"], lines[-1]["repeated"]
    return {
        **head,
        "played_minutes": round(lines[-1]["at_s"] / 60),
        "books": {
            "changes": changes,
            "effects": effects,
            "repeated": repeated,
            "open": waiting,
            "lost": max(0, changes - waiting - effects),
            "requests": lines[-1]["requests"],
        },
        "befell": {name: one["counts"] for name, one in houses.items()},
        "violations": lines[-1]["violations"],
        "troubles_of_the_driver": lines[-1]["wrong"],
        "rows": {name: _rows([(one["at_s"], one["houses"][name]) for one in lines]) for name in houses},
    }


def _rows(samples: Sequence[tuple[float, dict[str, Any]]]) -> list[list[float | None]]:
    """Minute, and each measure's median over two minutes, of processes that have started."""
    rows: list[list[float | None]] = []
    for number in range(int(samples[-1][0] // ROW_S)):
        those = [one for at, one in samples if number * ROW_S <= at < (number + 1) * ROW_S]
        told = [one for one in those if one.get("age_s", 0.0) > OLD_S]
        columns = [
            *([one[key] for one in told if key in one] for key in ("rss_mb", "handles", "threads")),
            [one["ledger_bytes"] / 1000 / one["records"] for one in those if one.get("records", 0) >= FEW],
            [late for one in those for late in one["latency_s"]],
            *([one[key] for one in told if key in one] for key in ("cpu_percent", "commit_ms", "page_ms")),
        ]
        rows.append([2.0 * number + 2.0, *(round(median(one), 2) if one else None for one in columns)])
    return rows


def tell(samples: Path, *, record: bool) -> None:
    """Prints what the samples show, and keeps it."""
    found = summed(samples)
    rows = found.pop("rows")
    sys.stdout.write(f"{json.dumps(found, indent=1)}\n")
    for name, those in rows.items():
        for column, measure in enumerate(MEASURES):
            sys.stdout.write(f"{name}: {measure.words}: {verdict(those, column)}\n")
    if record:
        lines = ",\n".join(
            f" {json.dumps(name)}: [\n  " + ",\n  ".join(map(json.dumps, those)) + "\n ]"
            for name, those in rows.items()
        )
        text = json.dumps(found, indent=1).removesuffix("\n}")
        RECORDED.write_text(f'{text},\n "rows": {{\n{lines}\n }}\n}}\n', "utf-8")


def main() -> None:
    wanted = argparse.ArgumentParser(description=__doc__)
    wanted.add_argument("--minutes", type=float, default=120.0)
    wanted.add_argument("--samples", type=Path, default=Path("soak.jsonl"))
    wanted.add_argument("--seed", type=int, default=1)
    wanted.add_argument("--sum", action="store_true", help="print what the samples show, and play nothing")
    wanted.add_argument("--record", action="store_true", help="keep that in benchmarks/recorded/soak.json")
    given = wanted.parse_args()
    if given.sum:
        tell(given.samples, record=given.record)
    else:
        play(given.minutes, given.samples, given.seed)


if __name__ == "__main__":
    main()
