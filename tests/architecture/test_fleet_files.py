"""What deploy/fleet/ has for several workers: configs that load, and a disk for each worker."""

from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from worker.config import read_config

FLEET: Final = Path(__file__).resolve().parents[2] / "deploy" / "fleet"
COMPOSE: Final[dict[str, Any]] = yaml.safe_load((FLEET / "compose.yaml").read_text("utf-8"))
MANIFESTS: Final[list[dict[str, Any]]] = list(yaml.safe_load_all((FLEET / "kubernetes.yaml").read_text("utf-8")))
WORKERS: Final = {name: one for name, one in COMPOSE["services"].items() if name != "db"}


def of_kind(kind: str) -> dict[str, Any]:
    (found,) = [one for one in MANIFESTS if one["kind"] == kind]
    return found


@pytest.mark.parametrize("where", ["compose", "kubernetes"])
def test_the_config_loads_and_keeps_its_state_on_the_workers_own_volume(where: str) -> None:
    text = (FLEET / "config.yaml").read_text("utf-8")
    if where == "kubernetes":
        text = of_kind("ConfigMap")["data"]["config.yaml"]
    config = read_config(Path("config.yaml"), text)
    assert config.ledger.startswith("postgresql://worker@")
    assert config.state_dir == "/data"


def test_each_worker_has_a_volume_of_its_own() -> None:
    own = [next(one for one in worker["volumes"] if one.endswith(":/data")) for worker in WORKERS.values()]
    assert len(own) == 3
    assert len({one.partition(":")[0] for one in own} & set(COMPOSE["volumes"])) == 3
    pod = of_kind("StatefulSet")["spec"]
    (claim,) = pod["volumeClaimTemplates"]
    (container,) = pod["template"]["spec"]["containers"]
    assert {"name": claim["metadata"]["name"], "mountPath": "/data"} in container["volumeMounts"]


def test_a_machine_that_starts_anew_starts_what_ran_on_it() -> None:
    """A shutdown ends a worker with 0, and what has ended so is not started again by `on-failure`."""
    alone = yaml.safe_load((FLEET.parent / "compose.yaml").read_text("utf-8"))["services"]["worker"]
    assert {one["restart"] for one in (alone, *COMPOSE["services"].values())} == {"unless-stopped"}


def test_the_database_counts_as_ready_once_workers_reach_it() -> None:
    """While the image makes the database, its server listens on a socket only, and a check by that says yes."""
    asked = COMPOSE["services"]["db"]["healthcheck"]["test"]
    assert asked[asked.index("-h") + 1] == "127.0.0.1"


def test_a_worker_has_the_time_to_await_what_is_in_flight() -> None:
    stop_within = read_config(Path("config.yaml"), (FLEET / "config.yaml").read_text("utf-8")).stop_within
    patient = [int(worker["stop_grace_period"].removesuffix("s")) for worker in WORKERS.values()]
    patient.append(of_kind("StatefulSet")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"])
    assert min(patient) > stop_within.total_seconds()
