"""A version of a solution: trained files, and what they answer. Run as a process of its own, so
that a trainer may die alone.

    python -m solution_version FOLDER

reads FOLDER/job.json (and FOLDER/previous.pt for an UPDATE) and writes FOLDER/version.pt, whole
or not at all. FULL trains a network from nothing on all events. UPDATE keeps its parent's
network, takes in new items by their metadata, and moves what is known of the items that the new
events showed (see item_network).
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import item_network
import torch
from click_world import UNKNOWN, SlateLog
from item_network import Beliefs, ItemNetwork, Recipe
from off_policy import offline_metrics
from service_requests import Event, need

LEAST = 1000  # interactions for a training, as in the service
LONGEST = 100  # of a user's latest clicks that an answer reads


@dataclass
class Version:
    """What a campaign answers from; `read` counts the streamed events that are in it."""

    items: list  # ids, in the order of the network's rows
    genres: list
    created: dict  # id: Unix seconds
    latest: float  # of the interactions it was trained on
    net: ItemNetwork
    known: Beliefs
    metrics: dict
    read: int = 0

    @property
    def at(self):
        """{id: row}"""
        return {item: row for row, item in enumerate(self.items)}


def creation_times(items, events, known=None, latest=0.0):
    """{item: Unix seconds}. Without a CREATION_TIMESTAMP it is the item's first interaction;
    without any, the latest of all: age 0. `known` and `latest` are from before these events."""
    latest = max([latest, *(event.time for event in events)])
    first = dict(known or {})
    for event in events:
        if event.item is not None:
            first[event.item] = min(first.get(event.item, event.time), event.time)
    given = {
        name: (items.get(name) or {}).get("CREATION_TIMESTAMP") for name in [*items, *first]
    }
    return {n: float(first.get(n, latest) if t is None else t) for n, t in given.items()}


def genre_table(items, names, vocabulary=None):
    """((I, G) floats, the G genres) of GENRES, joined by |; genres beyond a given vocabulary
    count as none."""
    told = [set(((items.get(n) or {}).get("GENRES") or "").split("|")) - {""} for n in names]
    vocabulary = sorted(set().union(*told)) or ["none"] if vocabulary is None else vocabulary
    rows = [[float(genre in genres) for genre in vocabulary] for genres in told]
    return torch.tensor(rows).reshape(len(names), len(vocabulary)), vocabulary


def slate_log(events, item_at, user_at, answered):
    """The SlateLog of these events; `answered` is {recommendation id: item ids}.

    Events of one user and one list belong together, so what was clicked there is nobody's
    negative. A click without a list, or on what its list does not hold, has no position. Events
    of another kind than "click" only tell what was seen.
    """
    lists = {}
    for event in events:
        shown = event.impression or tuple(answered.get(event.recommendation) or ())
        own = event.recommendation if event.recommendation else event.time
        entry = lists.setdefault((event.user, shown, own), [event.time, set()])
        entry[0] = min(entry[0], event.time)
        if event.kind == "click" and event.item is not None:
            entry[1].add(event.item)
    rows = []
    for (user, shown, _), (time, clicked) in lists.items():
        places = [(item, at) for at, item in enumerate(shown) if item in item_at]
        places += [(item, UNKNOWN) for item in sorted(clicked - set(shown)) if item in item_at]
        if places and user in user_at:
            rows.append((time, user_at[user], places, clicked))
    rows.sort(key=lambda row: row[0])
    shape = len(rows), max((len(places) for _, _, places, _ in rows), default=1)
    items, clicks = torch.full(shape, UNKNOWN), torch.zeros(shape, dtype=torch.bool)
    position = items.clone()
    for row, (_, _, places, clicked) in enumerate(rows):
        for at, (item, place) in enumerate(places):
            items[row, at], position[row, at] = item_at[item], place
            clicks[row, at] = item in clicked
    user = torch.tensor([row[1] for row in rows], dtype=torch.long)
    hour = torch.tensor([row[0] / 3600 for row in rows], dtype=torch.float64)
    return SlateLog(user, hour, items, position, clicks)


def full(events, items, answered, recipe=None):
    """A Version trained from nothing on all events, with offline metrics of a network that
    never saw a tenth of the users. Raises ValueError with too few events."""
    recipe, count = recipe or Recipe(), len(events)
    need(count >= LEAST, f"{count} interactions are too few to train on: {LEAST} are needed")
    created = creation_times(items, events)
    names, people = sorted(created), list(dict.fromkeys(event.user for event in events))
    table, genres = genre_table(items, names)
    log = slate_log(events, _places(names), _places(people), answered)
    need(log.clicks_SK.any(), "no event is of the solution's eventType, so nothing is learned")
    users = len(people)
    tested = torch.zeros(users, dtype=torch.bool)
    luck = torch.Generator().manual_seed(recipe.seed)
    tested[torch.randperm(users, generator=luck)[: users // 10]] = True
    metrics = {}
    if (log.clicks_SK.sum(1)[tested[log.user_S]]).sum() >= 10 * tested.sum() > 0:
        rest = log.rows(~tested[log.user_S])
        net = item_network.train(rest, table, users, recipe)
        metrics = offline_metrics(
            net, item_network.beliefs(net, rest, users, recipe), log, tested
        )
    net = item_network.train(log, table, users, recipe)
    known = item_network.beliefs(net, log, users, recipe)
    latest = max(event.time for event in events)
    return Version(names, genres, created, latest, net, known, metrics)


def _places(names):
    return {name: at for at, name in enumerate(names)}


def update(version, events, items, answered, history):
    """A Version with the parent's network, the new items, and beliefs moved by the new events;
    `history` is {user: clicks before them}."""
    times = creation_times(items, events, version.created, version.latest)
    latest = max([version.latest, *(event.time for event in events)])
    version = _extended(version, sorted(set(items) - set(version.items)), items)
    people = list(dict.fromkeys(event.user for event in events))
    log = slate_log(events, version.at, _places(people), answered)
    known = version.known
    if len(log):
        phi = torch.stack([state(version, history.get(people[u], ())) for u in log.user_S])
        theta = version.net.examined(log.position_SK).detach()
        known = item_network.update(known, phi, log.items_SK, theta, log.clicks_SK)
    return replace(version, known=known, created=times, latest=latest)


def _extended(version, new, items):
    """The version with rows for new items: the tower's answer, and the prior around it."""
    if not new:
        return version
    table, old = genre_table(items, new, version.genres)[0], version.known
    weights = version.net.state_dict()
    weights["genres_IG"] = torch.cat([weights["genres_IG"], table])
    offset = weights["offset_IP"]
    weights["offset_IP"] = torch.cat([offset, offset.new_zeros(len(new), offset.shape[1])])
    net = _network(weights)
    precision = torch.diag(1 / old.prior_P).expand(len(new), -1, -1)
    grown = net.tower(table).detach(), precision, torch.linalg.inv(precision)
    pairs = zip((old.mean_IP, old.precision_IPP, old.covariance_IPP), grown, strict=True)
    known = Beliefs(*(torch.cat(pair) for pair in pairs), old.prior_P)
    return replace(version, items=version.items + new, net=net, known=known)


@torch.no_grad()
def state(version, clicks):
    """(P,): the state of who clicked these items, oldest first; unknown ones do not count."""
    at = version.at
    rows = [at[item] for item in clicks if item in at][-LONGEST:]
    history = torch.tensor([rows or [UNKNOWN]])
    return version.net.states(history, version.known.mean_IP)[0, len(rows)]


def answer(version, clicks, weight, cutoff_days, count, among=None, generator=None):
    """[(item id, score)]: the best items for who clicked these, clicked ones left out; or the
    order of the items `among`, unknown ones last. Scores are a softmax over what was ranked."""
    at, days = version.at, 86_400.0
    ages = torch.tensor([(version.latest - version.created[n]) / days for n in version.items])
    cold = item_network.is_cold(-24 * ages, 0.0, cutoff_days)
    phi = state(version, clicks)[None]
    found = item_network.scores(version.known, phi, weight, cold, generator)[0]
    gone = set(clicks)
    names = [n for n in version.items if n not in gone] if among is None else among
    rows = torch.tensor([at[name] for name in names if name in at], dtype=torch.long)
    share, order = torch.softmax(found[rows], 0).sort(descending=True, stable=True)
    pairs = zip(rows[order[:count]].tolist(), share[:count].tolist(), strict=True)
    best = [(version.items[row], part) for row, part in pairs]
    return best + [(name, 0.0) for name in among or () if name not in at]


def similar(version, item, count):
    """The items whose vectors point most nearly the same way, by cosine."""
    at = version.at
    need(item in at, f"item {item!r} is not in the solution version")
    vectors = version.known.mean_IP[:, :-1]  # the last number is the same for every user
    vectors = torch.nn.functional.normalize(vectors, dim=1)
    near = vectors @ vectors[at[item]]
    near[at[item]] = -torch.inf
    value, rows = near.topk(min(count, len(near) - 1))
    pairs = zip(rows.tolist(), value.tolist(), strict=True)
    return [(version.items[row], one) for row, one in pairs]


def _network(weights):
    width, places = weights["gru.weight_hh_l0"].shape[1], len(weights["place_K"]) + 1
    net = ItemNetwork(weights["genres_IG"], width, places)
    net.load_state_dict(weights)
    return net.eval()


def save(version, path):
    """Write a version whole or not at all: a reader never sees half a file."""
    fields = {n: value for n, value in vars(version).items() if n not in ("net", "known")}
    kept = {"fields": fields, "net": version.net.state_dict(), "known": vars(version.known)}
    torch.save(kept, f"{path}.part")
    os.replace(f"{path}.part", path)


def load(path):
    """The Version of a file, which may hold tensors, numbers and texts alone: no code runs."""
    kept = torch.load(path, weights_only=True)
    return Version(net=_network(kept["net"]), known=Beliefs(**kept["known"]), **kept["fields"])


def finished(process, folder, limit_s):
    """(Version or None, the fields of its state) once the trainer of this folder has ended; it
    is ended after so many seconds."""
    why = f"the training took longer than {limit_s:g} s and was ended"
    try:
        process.wait(limit_s)
        why = f"the trainer was ended by signal {-process.returncode}"
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    try:
        need(process.returncode >= 0, why)
        if process.returncode:
            said = (folder / "stderr").read_text("utf-8", "replace").strip().splitlines()
            raise ValueError(said[-1] if said else "the trainer gave no reason")
        return load(folder / "version.pt"), {"status": "ACTIVE"}
    except Exception as error:  # whatever it was belongs into the version's state
        return None, {"status": "CREATE FAILED", "failureReason": str(error)[-500:]}


def main(folder):
    """Do the folder's job."""
    torch.set_num_threads(1)
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    rows = [fields | {"impression": tuple(fields["impression"])} for fields in job["events"]]
    events, items, answered = [Event(**row) for row in rows], job["items"], job["answered"]
    if job["mode"] == "FULL":
        made = full(events, items, answered, Recipe(**job["recipe"]))
    else:
        made = update(load(folder / "previous.pt"), events, items, answered, job["history"])
    save(replace(made, read=job["read"]), folder / "version.pt")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except ValueError as error:
        sys.exit(str(error))  # the reason stands in the version's failureReason
