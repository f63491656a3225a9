"""The control plane: two routing protocols tell what lies where, and one set of tables for all
data planes comes of it.

`LinkState` floods who has which links, and each router computes shortest paths (Dijkstra, as
OSPF does); `DistanceVector` tells its neighbours its distances, with poisoned reverse and an
infinity of 16 (Bellman and Ford, as RIP does). Of two routes to one prefix that of the
preferred protocol counts, then the cheaper. Labels are told apart from routes: each router
gives one to each prefix and tells its neighbours, 'implicit null' for its own (as LDP does).

A prefix is (address, length); a protocol's own `prefixes` are {prefix: who is there}, "local"
or a host beside it; its `routes()` are {prefix: (cost, neighbour)}.
"""

import heapq
from dataclasses import dataclass, field

import torch

from .forwarding import Hop, label_table, swap_batch
from .labels import FIRST_FREE, IMPLICIT_NULL
from .routes import MISS, RouteTable

INFINITY, ROUNDS = (
    16,
    64,
)  # a cost that means unreachable; messages settle within so many rounds


@dataclass
class Protocol:
    """What both know of themselves: name, costs of links by neighbour, own prefixes."""

    name: str
    links: dict[str, int]
    prefixes: dict[tuple[int, int], str]


@dataclass
class LinkState(Protocol):
    """Who has which links and prefixes, with a number that grows with each change."""

    preference = 110

    def __post_init__(self):
        self.known = {self.name: (0, dict(self.links), self.prefixes)}

    def says(self, neighbour: str) -> dict:
        return self.known

    def hears(self, neighbour: str, told: dict) -> None:
        """Keep what is newer; what is older came a longer way."""
        for origin, one in told.items():
            if origin != self.name and one[0] > self.known.get(origin, (-1,))[0]:
                self.known[origin] = one

    def lose(self, neighbour: str) -> None:
        number, links, prefixes = self.known[self.name]
        left = {other: cost for other, cost in links.items() if other != neighbour}
        self.known[self.name] = (number + 1, left, prefixes)

    def routes(self) -> dict:
        queue, done, made = [(0, self.name, "local")], set(), {}
        while queue:
            cost, at, first = heapq.heappop(queue)
            if at in done:
                continue
            done.add(at)
            _, links, prefixes = self.known[at]
            for prefix in prefixes:
                place = prefixes[prefix] if at == self.name else first
                made.setdefault(prefix, (cost, place))
            for other, more in links.items():
                if at in self.known.get(other, (0, ()))[1]:  # a link counts if both ends say so
                    way = other if at == self.name else first
                    heapq.heappush(queue, (cost + more, other, way))
        return made


@dataclass
class DistanceVector(Protocol):
    """What each neighbour said last; the distances are the best of it."""

    preference = 120

    def __post_init__(self):
        self.heard = {}

    def says(self, neighbour: str) -> dict:
        return {
            prefix: INFINITY if first == neighbour else cost
            for prefix, (cost, first) in self.routes().items()
        }

    def hears(self, neighbour: str, told: dict) -> None:
        self.heard[neighbour] = told

    def lose(self, neighbour: str) -> None:
        self.links.pop(neighbour, None)
        self.heard.pop(neighbour, None)

    def routes(self) -> dict:
        made = {prefix: (0, place) for prefix, place in self.prefixes.items()}
        for neighbour, told in sorted(self.heard.items()):
            for prefix, cost in told.items():
                cost += self.links[neighbour]
                if cost < made.get(prefix, (INFINITY,))[0]:
                    made[prefix] = (cost, neighbour)
        return made


def converge(speakers: list[Protocol]) -> int:
    """How many rounds of messages it took until every router says what it said before."""
    by_name, before = {one.name: one for one in speakers}, None
    for count in range(ROUNDS):
        said = [
            (to, one.name, dict(one.says(to)))
            for one in speakers
            for to in one.links
            if one.name in by_name[to].links
        ]
        if said == before:
            return count
        before = said
        for to, sender, told in said:
            by_name[to].hears(sender, told)
    raise ValueError(f"messages still change after {ROUNDS} rounds")


@dataclass
class Control:
    """One router's control plane: `protocols`, and the labels it gives out and was told."""

    name: str
    protocols: list
    given: dict[tuple[int, int], int] = field(default_factory=dict)
    told: dict[str, dict] = field(default_factory=dict)

    def best(self) -> dict[tuple[int, int], str]:
        """{prefix: neighbour}, by the protocols' preference, then by cost."""
        made = {}
        for one in sorted(self.protocols, key=lambda each: each.preference):
            for prefix, (_, neighbour) in one.routes().items():
                made.setdefault(prefix, neighbour)
        return made

    def labels(self) -> dict[tuple[int, int], int]:
        """The label that others shall put on packets for each prefix; a prefix keeps its own
        label."""
        own = {prefix for one in self.protocols for prefix in one.prefixes}
        for prefix in sorted(self.best().keys() - own):
            self.given.setdefault(prefix, FIRST_FREE + len(self.given))
        return {p: IMPLICIT_NULL if p in own else self.given[p] for p in self.best()}

    def install(self, *planes) -> None:
        """Write hops, routes and labels into every data plane."""
        best, own = self.best(), self.labels()
        hops = [Hop(n, self.told.get(n, {}).get(prefix)) for prefix, n in best.items()]
        routes = [(*prefix, at) for at, prefix in enumerate(best)]
        labels = {own[p]: at for at, p in enumerate(best) if own[p] != IMPLICIT_NULL}
        for plane in planes:
            plane.install(hops, routes, labels)


def exchange_labels(controls: list[Control]) -> None:
    """Every router tells all others its labels; each uses those of its next hop alone."""
    said = {one.name: one.labels() for one in controls}
    for one in controls:
        one.told = {name: labels for name, labels in said.items() if name != one.name}


class BatchPlane:
    """A data plane of tensors: many packets a call, nothing but routes and labels."""

    def __init__(self, device=None):
        self.device = device

    def install(self, hops: list[Hop], routes: list[tuple], labels: dict[int, int]) -> None:
        self.routes = RouteTable(routes, self.device)
        self.labels = label_table(labels, self.device)
        out = [MISS if hop.label is None else hop.label for hop in hops] or [MISS]
        self.out = torch.tensor(out, device=self.device)

    def push(self, addresses: torch.Tensor, ttl: int) -> torch.Tensor:
        """The first entry of each packet; `MISS` where it goes without a label or nowhere."""
        number = self.routes.lookup(addresses)
        label = self.out[number.clamp(min=0)]
        word = label << 12 | 0x100 | (ttl - 1)
        return torch.where((number != MISS) & (label >= FIRST_FREE), word, MISS)

    def swap(self, words: torch.Tensor) -> torch.Tensor:
        """The new top entry of each packet; `MISS` where nothing is swapped."""
        return swap_batch(words, self.labels, self.out)
