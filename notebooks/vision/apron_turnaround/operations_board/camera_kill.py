"""The page's own board: what is known of one turnaround while cameras die, with no server.

The events, and who saw them when, come from the run's own films; for each state of knowledge
the predicted minute off block is asked beforehand, and the script only shows it.
"""

import html
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from event_scores import Event

SCRIPT = Path(__file__).with_name("camera_kill.js")
STEP = 3  # minutes between two places of the slider


def known(events: dict[str, Sequence[Event]], dead: dict[str, float], now: float) -> dict:
    """{event: its time} that a board knows at `now` (s) from cameras that fell silent at `dead`
    (s; a camera that is not named lives)."""
    found = {}
    for camera, own in events.items():
        for one in own:
            if one.told <= min(now, dead.get(camera, now)):
                found.setdefault(one.name, one.time)
    return found


def moments(
    events: dict[str, Sequence[Event]],
    end: float,
    predict: Callable[[float, dict, frozenset], tuple[float, ...]],
) -> dict:
    """What the script shows: the events of each camera, and predictions by what is known.

    `predict(now, {event: time}, living cameras)` gives (median, low, high) in minutes, and how
    likely a delay is. Equal states of knowledge are asked once.
    """
    steps = range(int(end // 60) // STEP + 1)
    asked, table = {}, {}
    for now in steps:
        for a in range(now + 2):  # the step at which A dies; now + 1: it lives
            for b in range(now + 2):
                dead = {n: 60.0 * STEP * at for n, at in (("A", a), ("B", b)) if at <= now}
                told = known(events, dead, 60.0 * STEP * now)
                living = frozenset({"A", "B"} - set(dead))
                key = (now, tuple(sorted(told.items())), living)
                if key not in asked:
                    told = predict(60.0 * STEP * now, told, living)
                    asked[key] = [
                        round(float(one), 1 if at < 3 else 3) for at, one in enumerate(told)
                    ]
                table[f"{now} {a} {b}"] = asked[key]
    rows = {
        camera: [[one.name, round(one.time / 60, 1), round(one.told / 60, 2)] for one in own]
        for camera, own in events.items()
    }
    return {"step": STEP, "steps": len(steps), "events": rows, "predicted": table}


def board(words: str, given: dict) -> str:
    """HTML of the board with its script. `words` stand there until a browser has run it."""
    return (
        f'<div class="camera-kill" data-board="{html.escape(json.dumps(given))}"><p>{words}</p>'
        f"</div><script>{SCRIPT.read_text(encoding='utf-8')}</script>"
    )
