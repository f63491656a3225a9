"""What a gate saves and what it loses, counted by event: a person who walks through with a
plate is found if one frame of that passes the gate and the detector sees it. A frame that is
lost is no loss while another is found; an event of which all are lost is.

`B` clips, `T` frames. `scores_BT` are a gate's, `seen_BT` says where the detector would fire,
`truth_BT` where the plate is in view.
"""

import torch
from frame_gates import turns


def passes(scores_BT: torch.Tensor, share: float) -> torch.Tensor:
    """The frames of a gate that lets a share of all frames through, those with the highest
    scores, (B, T) of bool. Of equal scores those pass whose turn is earlier in `turns`, so
    every gate passes equally many, and none prefers the beginning of a clip."""
    if not 0 <= share <= 1:
        raise ValueError(f"share is {share}; 0 to 1 are allowed")
    flat = scores_BT.flatten()
    count, clips = round(share * len(flat)), len(scores_BT)
    turn = (
        turns(scores_BT.shape[1])
        .to(flat.device)
        .repeat(clips)
        .argsort(descending=True, stable=True)
    )
    made = torch.zeros(len(flat), dtype=torch.bool, device=flat.device)
    made[turn[flat[turn].argsort(descending=True, stable=True)[:count]]] = True
    return made.view(scores_BT.shape)


def over(scores_BT: torch.Tensor, threshold: float) -> torch.Tensor:
    """The frames of a gate with a threshold: the form that works on a stream."""
    return scores_BT >= threshold


def in_turn(scores_BT: torch.Tensor) -> torch.Tensor:
    """The scores, of which equal ones now differ by their turn in `turns`. A gate that counts
    pixels says the highest score of a fifth of all frames; so a threshold can thin these, too.
    Scores that differ by less than a thousandth are taken for equal."""
    return scores_BT + 1e-3 * turns(scores_BT.shape[1]).to(scores_BT.device)


def threshold_for(scores_BT: torch.Tensor, share: float) -> float:
    """The lowest threshold over which no more than this share passes, of clips that judge no
    result; the highest score, where that alone is more often there."""
    values, counts = scores_BT.unique(return_counts=True)
    passing = counts.flip(0).cumsum(0).flip(0) / scores_BT.numel()
    return float(values[passing <= share][0] if passing[-1] <= share else values[-1])


def found(passed_BT, seen_BT, truth_BT) -> torch.Tensor:
    """Whether each clip's event is found, (B,) of bool."""
    return (passed_BT & seen_BT & truth_BT).any(1)


def recall(passed_BT, seen_BT, truth_BT) -> float:
    """The share of events that are found; clips without one do not count."""
    there = truth_BT.any(1)
    return float(found(passed_BT, seen_BT, truth_BT)[there].float().mean())


def curve(scores_BT, seen_BT, truth_BT, shares) -> list[tuple[float, float, float]]:
    """(frames saved, recall of events, recall of frames) for each share that passes."""
    made = []
    for share in shares:
        passed = passes(scores_BT, share)
        frames = float((passed & truth_BT).sum() / truth_BT.sum())
        made.append(
            (1 - float(passed.float().mean()), recall(passed, seen_BT, truth_BT), frames)
        )
    return made


def roc(scores_BT, truth_BT) -> tuple[list[float], list[float], float]:
    """False and true positive rates of frames by falling threshold, and the area under them."""
    order = scores_BT.flatten().argsort(descending=True, stable=True)
    truth, scores = truth_BT.flatten()[order], scores_BT.flatten()[order]
    last = torch.nn.functional.pad(
        scores[1:] != scores[:-1], (0, 1), value=True
    )  # ties as one step
    hits, false = truth.cumsum(0)[last], (~truth).cumsum(0)[last]
    true_share = [0.0, *(hits / hits[-1]).tolist()]
    false_share = [0.0, *(false / false[-1]).tolist()]
    return (
        false_share,
        true_share,
        float(torch.trapezoid(torch.tensor(true_share), torch.tensor(false_share))),
    )


def cameras_a_core(gate_s: float, detector_s: float, share: float, rate_hz: float) -> float:
    """How many cameras of so many frames a second one core serves: each frame costs the gate, a
    share of them the detector."""
    return 1 / (rate_hz * (gate_s + share * detector_s))
