"""From labelled hits to clusters and space points, and how right the labels are.

Hits of one plane and kind that lie near each other are a cluster. ProtoDUNE-SP goes the other
way round: it clusters by place first, then gives each cluster the kind that its hits' outputs
sum to. A point in space was seen by three planes at one time; two of its wires predict the
third, and the prediction must be hit. A hit is right if most electrons of its wire and pixel
come from the kind it was labelled.
"""

import numpy as np
from lartpc import COLLECTION, EM, MICHEL, TRACK
from lartpc.detector import ANGLES, DRIFT_CM_PER_US, PITCH_CM, TICK_US
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

KINDS = {TRACK: "track", EM: "shower", MICHEL: "Michel"}
NEAR_CM, MICHEL_AT = 1.6, 0.5
TICK_CM = TICK_US * DRIFT_CM_PER_US


def kinds_of(emtrk, michel, michel_at=MICHEL_AT):
    """The kind of each hit (H,) by the network's outputs (H, 3) and (H, 1)."""
    larger = np.where(emtrk[:, 1] > emtrk[:, 0], EM, TRACK)
    return np.where(michel[:, 0] > michel_at, MICHEL, larger)


def cluster(hits, kinds, plane, near_cm=NEAR_CM):
    """A cluster's number for each hit (H,): connected by steps of at most `near_cm` within a
    kind; one without neighbours is alone. Cost: H log H."""
    at = np.stack([hits.wire * PITCH_CM[plane], hits.tick * TICK_CM], 1)
    if not len(at):
        return np.zeros(0, int)
    one, other = cKDTree(at).query_pairs(near_cm, output_type="ndarray").T
    same = kinds[one] == kinds[other]
    ones = np.ones(same.sum(), bool)
    links = coo_matrix((ones, (one[same], other[same])), shape=(len(at), len(at)))
    return connected_components(links, directed=False)[1]


def match_planes(planes, detector, ticks=3.0, wires=1.0):
    """(points (M, 3) in cm, rows (M, 3) of the hits in an assembly's planes): triples within
    `ticks` whose U and V wires predict a collection wire that was hit, within `wires`; each
    collection hit once, by its nearest prediction."""
    u, v, y = planes
    partners = cKDTree(v.tick[:, None]).query_ball_point(u.tick[:, None], ticks)
    row_u = np.repeat(np.arange(len(u.tick)), [len(p) for p in partners])
    row_v = np.concatenate([*partners, []]).astype(int)
    low = [min(0.0, np.sin(ANGLES[plane])) * detector.height_cm for plane in (0, 1)]
    b_u = (u.wire[row_u] + 0.5) * PITCH_CM[0] + low[0]  # z cos a + y sin a
    b_v = (v.wire[row_v] + 0.5) * PITCH_CM[1] + low[1]
    depth, height = (b_u + b_v) / (2 * np.cos(ANGLES[0])), (b_u - b_v) / (2 * np.sin(ANGLES[0]))
    tick, size = (u.tick[row_u] + v.tick[row_v]) / 2, detector.size_cm
    inside = (height > -1) & (height < size[1] + 1) & (depth > -1) & (depth < size[2] + 1)
    row_u, row_v, depth, height, tick = (x[inside] for x in (row_u, row_v, depth, height, tick))
    if not len(tick) or not len(y.tick):
        return np.zeros((0, 3)), np.zeros((0, 3), int)
    target = np.stack([y.tick / ticks, (y.wire + 0.5) / wires], 1)
    guess = np.stack([tick / ticks, depth / PITCH_CM[COLLECTION] / wires], 1)
    away, row_y = cKDTree(target).query(guess, distance_upper_bound=1.0)
    order = np.argsort(away)
    order = order[np.isfinite(away[order])]
    best = order[np.unique(row_y[order], return_index=True)[1]]
    points = np.stack([tick[best] * TICK_CM, height[best], depth[best]], 1)
    return points, np.stack([row_u[best], row_v[best], row_y[best]], 1)


def hit_truth(hits, truth_3WT, least=2000.0):
    """The kind that made most of the electrons around each hit (H,), in its own pixel and the
    two beside it in time; -1 where there were fewer than `least`."""
    wide = truth_3WT + np.roll(truth_3WT, 1, 2) + np.roll(truth_3WT, -1, 2)
    found = wide[:, hits.wire, hits.pixel]
    return np.where(found.sum(0) < least, -1, found.argmax(0))


def quality(kinds, truth):
    """{kind: (efficiency, purity, true hits)}: the share of true hits that are labelled so, of
    hits labelled so that are true; NaN where there are none."""
    rows = {}
    for kind, name in KINDS.items():
        both = ((kinds == kind) & (truth == kind)).sum()
        true, said = (truth == kind).sum(), ((kinds == kind) & (truth >= 0)).sum()
        shares = (both / count if count else np.nan for count in (true, said))
        rows[name] = *shares, int(true)
    return rows
