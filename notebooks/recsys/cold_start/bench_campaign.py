"""The race of answers: lists for each second over HTTP, alone and during an UPDATE.

    python -m bench_campaign --rounds 3

The catalogue has the article's size. Clients are processes of their own and keep their
connection; each asks for 25 items for one user after another. Rates are answers by the wall
clock. In each round of the last row events come, an UPDATE reads them, and four clients ask
until it is over.
"""

import argparse
import http.client
import itertools
import json
import multiprocessing
import tempfile
import time
from pathlib import Path

import campaign_server
import click_world
import numpy as np
import torch
from helpers import bench, check, device, receipts
from service_requests import Event

CLIENTS, SECONDS = (1, 4), 3.0
EVENTS = 20_000  # before each UPDATE: with twenty rounds about as many as the service holds
START = 1_600_000_000  # hour 0 of the world


def ask(address, campaign, users, seconds, stop):
    """The times in s of one client's answers, one after another, until `stop` is a file."""
    line = http.client.HTTPConnection(address.removeprefix("http://"), timeout=30)
    times, until = [], time.monotonic() + seconds
    for number in itertools.count():
        if time.monotonic() > until or Path(stop).exists():
            return times
        body = json.dumps({"campaignArn": campaign, "userId": f"u{number % users}"})
        began = time.perf_counter()
        line.request("POST", "/recommendations", body)
        answer = line.getresponse()
        found = json.loads(answer.read())
        times.append(time.perf_counter() - began)
        if answer.status != 200 or len(found["itemList"]) != 25:
            raise RuntimeError(f"{answer.status}: {str(found)[:200]}")


def as_data(world, log):
    """(events, items) of a world and its log, as a service holds them after an import."""
    lists, user = [tuple(f"i{i}" for i in row) for row in log.items_SK.tolist()], log.user_S
    when, clicks = START + 3600 * log.hour_S.double(), log.clicks_SK.nonzero().tolist()
    events = [
        Event(f"u{user[s]}", lists[s][k], "click", float(when[s]), lists[s]) for s, k in clicks
    ]
    items, made = {}, START + 3600 * world.created_I.double()
    for item, has in enumerate(world.genres_IG):
        genres = "|".join(f"g{g}" for g in has.nonzero()[:, 0].tolist())
        items[f"i{item}"] = {"GENRES": genres, "CREATION_TIMESTAMP": float(made[item])}
    return events, items


def filled(folder, world, log):
    """(service, campaign, tracking id, solution): the log in place, trained shortly, live."""
    service = campaign_server.Service(folder / "trained", folder, {"steps": 20})
    call, (events, items) = service.call, as_data(world, log)
    group = call("CreateDatasetGroup", {"name": "films"})
    held = {"imported": events, "items": items, "categorical": ["GENRES"]}
    service.things[group["datasetGroupArn"]] |= held
    solution = call("CreateSolution", group | {"name": "s"})
    version = trained(service, solution, "FULL")
    campaign = call("CreateCampaign", {"name": "c", "solutionVersionArn": version})
    tracker = call("CreateEventTracker", group | {"name": "t"})
    return service, campaign["campaignArn"], tracker["trackingId"], solution


def trained(service, solution, mode):
    """The ARN of a new version once it is ACTIVE."""
    made = service.call("CreateSolutionVersion", solution | {"trainingMode": mode})
    found = {"status": "CREATE PENDING"}
    while found["status"] not in ("ACTIVE", "CREATE FAILED"):
        time.sleep(0.05)
        found = service.call("DescribeSolutionVersion", made)["solutionVersion"]
    check.that(found["status"] == "ACTIVE", found.get("failureReason", ""))
    return made["solutionVersionArn"]


def stream(service, tracking, world, numbers):
    """Put events in tens of one user, each a click in a list of its own."""
    for number in numbers:
        events = []
        for at in range(number, number + 10):
            shown = [f"i{(at * 10 + place) % world.items}" for place in range(10)]
            one = {"eventId": str(at), "eventType": "click", "itemId": shown[at % 10]}
            events.append(one | {"sentAt": START + at, "impression": shown})
        about = {"trackingId": tracking, "userId": f"u{number // 10 % world.users}"}
        service.put_events(about | {"sessionId": "s", "eventList": events})


def loaded(pool, clients, *asked, meanwhile=lambda: None):
    """(answers for each second, p50, p99) of so many clients at once."""
    began = time.perf_counter()
    running = [pool.apply_async(ask, asked) for _ in range(clients)]
    meanwhile()
    times = sum((client.get(900) for client in running), [])
    rate = len(times) / (time.perf_counter() - began)
    return rate, *np.quantile(times, (0.5, 0.99)).tolist(), len(times)


def keep(receipt, name, rows):
    """Record the medians of the rounds, and the least answers of which a 99th percentile is."""
    for at, (end, unit) in enumerate((("rate", "answers/s"), ("p50", "s"), ("p99", "s"))):
        receipt.record(f"{name}_{end}", bench.spread(row[at] for row in rows), unit)
    receipt.sizes(**{f"{name}_least": min(row[3] for row in rows)})


def measure(receipt, folder, world, log, rounds):
    """Record answers of one client and of four, then of four during UPDATEs."""
    service, campaign, tracking, solution = filled(folder, world, log)
    stop, most, rows, took = folder / "stop", max(CLIENTS), [], []
    pool = multiprocessing.get_context("spawn").Pool(most)
    with campaign_server.serving(service) as address, pool:
        asked = address, campaign, world.users
        for clients in CLIENTS:
            loaded(pool, clients, *asked, 1.0, stop)  # warm
            each = [loaded(pool, clients, *asked, SECONDS, stop) for _ in range(rounds)]
            keep(receipt, f"answers_{clients}", each)

        def updated():
            began = time.perf_counter()
            trained(service, solution, "UPDATE")
            took.append(time.perf_counter() - began)
            stop.touch()

        for turn in range(rounds):
            stream(service, tracking, world, range(turn * EVENTS, (turn + 1) * EVENTS, 10))
            rows.append(loaded(pool, most, *asked, 800.0, stop, meanwhile=updated))
            stop.unlink()
        keep(receipt, "answers_update", rows)
        receipt.record("update_time", bench.spread(took), "s")


def main(argv=None):
    """Fill a service, load it, write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1, help="of torch in the server")
    options = parser.parse_args(argv)
    torch.set_num_threads(options.threads)
    receipt = receipts.start("cold_start", device.tier("cpu"), threads=options.threads)
    world = click_world.draw(0, 400, each_day=0)
    with tempfile.TemporaryDirectory() as name:
        measure(receipt, Path(name), world, click_world.history(world), options.rounds)
    receipt.sizes(users=world.users, items=world.items, events=EVENTS)
    print(receipt.write(name="campaign"))


if __name__ == "__main__":
    main()
