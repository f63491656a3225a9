"""A version of a solution: what is trained, and what it answers. FULL trains a network from
nothing on all events; UPDATE keeps its parent's network, takes in new items by their metadata,
and moves what is known of what the new events showed. As a process, so that it may die alone,

    python -m solution_version FOLDER

waits for a line of input, reads job.json and events.jsonl (previous.pt for an UPDATE), writes
version.pt, whole or not at all, and ends when its input is closed.
"""

import dataclasses
import functools
import json
import os
import sys
import threading
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
TOGETHER = 1800  # seconds in which the same list, shown without an id, is one list
CUTOFF_DAYS = 30.0  # of offline metrics


@dataclass
class Version:
    """What a campaign answers from."""

    items: list  # ids, in the order of the network's rows
    categories: list  # such as GENRES=drama: the columns of the network's table
    created: dict  # id: Unix seconds
    latest: float  # of the interactions it was trained on
    net: ItemNetwork
    known: Beliefs
    metrics: dict

    @functools.cached_property
    def at(self):  # {id: row}
        return _places(self.items)

    @functools.cached_property
    def age_hours(self):  # (I,), when the latest interaction happened
        return _hours(self.latest - self.created[name] for name in self.items)


def creation_times(items, events, known=None, latest=0.0):
    """{item: Unix seconds}. Without a CREATION_TIMESTAMP it is the item's first interaction;
    without any, the latest of all: age 0. `known` and `latest` are from before these events."""
    latest = max([latest, *(event.time for event in events)])
    first = dict(known or {})
    for event in events:
        if event.item is not None:
            first[event.item] = min(first.get(event.item, event.time), event.time)
    given = {n: items.get(n, {}).get("CREATION_TIMESTAMP") for n in [*items, *first]}
    return {n: float(first.get(n, latest) if t is None else t) for n, t in given.items()}


def category_table(items, names, fields=("GENRES",), vocabulary=None):
    """((I, G) floats, the G categories) of these fields, whose values are joined by |; what a
    given vocabulary lacks counts as nothing, and so does null."""

    def told(name):
        pairs = ((field, items.get(name, {}).get(field) or "") for field in fields)
        return {f"{field}={part}" for field, text in pairs for part in text.split("|") if part}

    if vocabulary is None:
        vocabulary = sorted(set().union(*map(told, names))) or ["none"]
    fields = dict.fromkeys(word.partition("=")[0] for word in vocabulary)
    rows = [[float(word in words) for word in vocabulary] for words in map(told, names)]
    return torch.tensor(rows).reshape(len(names), len(vocabulary)), vocabulary


def slate_log(events, item_at, user_at):
    """The SlateLog of these events, each with the list that was shown as its impression.

    Events of one user and one list belong together, for half an hour where the list has no id,
    so what was taken there is nobody's negative. What was taken without a list, or is not in
    its list, has no position. An event that only tells what was seen, without a list, is one.
    """
    rows, latest = [], {}
    for event in sorted(events, key=lambda event: event.time):
        alone = (event.item,) if event.item is not None and not event.engaged else ()
        shown = event.impression or alone
        key = event.user, shown, event.recommendation
        row = latest.get(key)
        late = row and not event.recommendation and event.time - row[0] > TOGETHER
        if row is None or late or not shown:
            row = latest[key] = event.time, event.user, shown, set()
            rows.append(row)
        if event.engaged:
            row[3].add(event.item)
    return _packed([row for row in rows if row[1] in user_at], item_at, user_at)


def _packed(rows, item_at, user_at):
    found = []
    for time, user, shown, taken in rows:
        places = [(item, at) for at, item in enumerate(shown) if item in item_at]
        places += [(item, UNKNOWN) for item in sorted(taken - set(shown)) if item in item_at]
        if places:
            cells = [(item_at[item], at, item in taken) for item, at in places]
            found.append((user_at[user], time, cells))
    width = max((len(cells) for *_, cells in found), default=1)
    padded = [cells + [(UNKNOWN, UNKNOWN, False)] * (width - len(cells)) for *_, cells in found]
    items, position, taken = torch.tensor(padded).long().reshape(len(found), width, 3).unbind(2)
    user = torch.tensor([user for user, *_ in found], dtype=torch.long)
    return SlateLog(user, _hours(time for _, time, _ in found), items, position, taken.bool())


def _hours(seconds):
    return torch.tensor(list(seconds), dtype=torch.float64) / 3600


def full(events, items, recipe=None, weight=0.0, categorical=("GENRES",)):
    """A Version trained from nothing on all events, with offline metrics of a network that
    never saw a tenth of the users, at this weight. Raises ValueError with too few events."""
    recipe, count = recipe or Recipe(), len(events)
    need(count >= LEAST, f"{count} interactions are too few to train on: {LEAST} are needed")
    created, latest = creation_times(items, events), max(event.time for event in events)
    names, people = sorted(created), list(dict.fromkeys(event.user for event in events))
    table, categories = category_table(items, names, categorical)
    log = slate_log(events, _places(names), _places(people))
    need(log.clicks_SK.any(), "all events only tell what was seen, so nothing is learned")
    hours, users, metrics = _hours(created[name] for name in names), len(people), {}
    luck = torch.Generator().manual_seed(recipe.seed)
    tested = torch.randperm(users, generator=luck) < users // 10
    if (log.clicks_SK.sum(1)[tested[log.user_S]]).sum() >= 10 * tested.sum() > 0:
        rest = log.rows(~tested[log.user_S])
        net, known = item_network.learned(rest, table, hours, users, recipe)
        cold = item_network.is_cold(hours, latest / 3600, CUTOFF_DAYS)
        metrics = offline_metrics(net, known, log, tested, weight, cold, generator=luck)
    net, known = item_network.learned(log, table, hours, users, recipe)
    return Version(names, categories, created, latest, net, known, metrics)


def _places(names):
    return {name: at for at, name in enumerate(names)}


def update(version, events, items, history):
    """A Version with the parent's network, the new items, and beliefs moved by the new events;
    `history` is {user: [(time, item), …]}, their clicks, of which a list's state has read those
    before it. A list whose events come before and after an UPDATE counts in both."""
    times = creation_times(items, events, version.created, version.latest)
    latest = max([version.latest, *(event.time for event in events)])
    version = _extended(version, sorted(set(items) - set(version.items)), items)
    people = list(dict.fromkeys(event.user for event in events))
    log, known = slate_log(events, version.at, _places(people)), version.known
    if len(log):
        phi = states_before(version, [history.get(user, ()) for user in people], log)
        known = item_network.read_lists(known, version.net, phi, log)
    return replace(version, known=known, created=times, latest=latest)


def _extended(version, new, items):
    """The version with rows for new items: the tower's answer, and the prior around it."""
    if not new:
        return version
    table = category_table(items, new, vocabulary=version.categories)[0]
    old = version.known
    precision = torch.diag(1 / old.prior_P).expand(len(new), -1, -1)
    grown = version.net.tower(table).detach(), precision, torch.linalg.inv(precision)
    pairs = zip((old.mean_IP, old.precision_IPP, old.covariance_IPP), grown, strict=True)
    known = Beliefs(*(torch.cat(pair) for pair in pairs), old.prior_P)
    return replace(version, items=version.items + new, known=known)


@torch.no_grad()
def states_before(version, past, log):
    """(S, P): each list's state, after its user's clicks before it; `past` is [(time, item), …]
    for each user. A history is read once, not once a list: so all of it, not the LONGEST."""
    phi, at = torch.zeros(len(log), version.known.mean_IP.shape[1]), version.at
    for user, rows in enumerate(past):
        lists = (log.user_S == user).nonzero()[:, 0]
        rows = [(time, at[item]) for time, item in rows if item in at]
        items = torch.tensor([[item for _, item in rows] or [UNKNOWN]])
        times = torch.tensor([time for time, _ in rows], dtype=torch.float64)
        before = torch.searchsorted(times, 3600 * log.hour_S[lists] - 1e-3)
        phi[lists] = version.net.states(items, version.known.mean_IP)[0, before]
    return phi


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
    at = version.at
    cold = item_network.is_cold(-version.age_hours, 0.0, cutoff_days)
    phi = state(version, clicks)[None]
    found = item_network.scores(version.known, phi, weight, cold, generator)[0]
    if among is None:
        mask = torch.ones(len(found), dtype=torch.bool)
        mask[[at[name] for name in clicks if name in at]] = False
        rows = mask.nonzero()[:, 0]
    else:
        rows = torch.tensor([at[name] for name in among if name in at], dtype=torch.long)
    share, order = torch.softmax(found[rows], 0).sort(descending=True, stable=True)
    pairs = zip(rows[order[:count]].tolist(), share[:count].tolist(), strict=True)
    best = [(version.items[row], part) for row, part in pairs]
    return best + [(name, 0.0) for name in among or () if name not in at]


def similar(version, item, count):
    """The items whose vectors point most nearly the same way, by cosine."""
    need(item in version.at, f"item {item!r} is not in the solution version")
    vectors, at = version.known.mean_IP[:, :-1], version.at[item]  # all users share the last
    vectors = torch.nn.functional.normalize(vectors, dim=1)
    near = vectors @ vectors[at]
    near[at] = -torch.inf
    best = near.topk(min(count, len(near) - 1))
    return [(version.items[row], float(near[row])) for row in best.indices.tolist()]


def save(version, path):
    """Write a version whole or not at all: a reader never sees half a file."""
    kept = {field.name: getattr(version, field.name) for field in dataclasses.fields(Version)}
    kept |= {"net": version.net.state_dict(), "known": vars(version.known)}
    torch.save(kept, f"{path}.part")
    os.replace(f"{path}.part", path)


def load(path):
    """The Version of a file, which may hold tensors, numbers and texts alone: no code runs."""
    kept = torch.load(path, weights_only=True)
    weights, known = kept.pop("net"), Beliefs(**kept.pop("known"))
    width, places = weights["gru.weight_hh_l0"].shape[1], len(weights["place_K"]) + 1
    net = ItemNetwork(weights["genres_IG"], width, places)
    net.load_state_dict(weights)
    return Version(net=net.eval(), known=known, **kept)


def main(folder):
    """Do the folder's job."""
    torch.set_num_threads(1)
    job = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    rows = map(json.loads, (folder / "events.jsonl").read_text(encoding="utf-8").splitlines())
    events = [Event(**row | {"impression": tuple(row["impression"])}) for row in rows]
    if job["mode"] == "FULL":
        recipe = Recipe(**job["recipe"])
        made = full(events, job["items"], recipe, job["weight"], job["categorical"])
    else:
        try:
            parent = load(folder / "previous.pt")
        except Exception as error:
            raise ValueError(f"the parent cannot be read, so train FULL: {error}") from error
        made = update(parent, events, job["items"], job["history"])
    save(made, folder / "version.pt")


def _end_with_parent():
    os.read(0, 1)  # nothing more is sent: this ends when the parent is gone, however it went
    os._exit(1)


if __name__ == "__main__":
    if not os.read(0, 100):  # a line says that the job lies in the folder
        sys.exit("nobody is left who wants this version")
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        main(Path(sys.argv[1]))
    except ValueError as error:
        sys.exit(str(error))  # the reason stands in the version's failureReason
