"""The study: how much each estimator varies, at equal samples and at equal time, in the box and
over the glossy plates.

    make study CHAPTERS=signals/light_transport STUDY=estimators

Variance is that of one sample a pixel of light scattered 1 to `depth` times; `work`, variance
times the seconds of a sample, is what is left after one second. A seed draws the pictures.
"""

import allocation
import rooms
from helpers.study import Arm, Metric, Outcome, Part, Study
from path_tracing import Options

ROOMS = {"box": rooms.cornell_box, "plates": rooms.glossy_plates}
ARMS = {
    "lamp": Arm(test=tuple(ROOMS), setting={"estimator": "lamp", "heuristic": "power"}),
    "bsdf": Arm(test=tuple(ROOMS), setting={"estimator": "bsdf", "heuristic": "power"}),
    "balance": Arm(
        test=tuple(ROOMS), setting={"estimator": "multiple", "heuristic": "balance"}
    ),
    "power": Arm(test=tuple(ROOMS), setting={"estimator": "multiple", "heuristic": "power"}),
}


def parts(seed: int, sizes: dict) -> dict[str, Part]:
    """The two rooms; which pictures are drawn of them is what a seed says."""
    side = sizes["pixels"]
    return {name: Part(room(side, side), [f"{name} {seed}"]) for name, room in ROOMS.items()}


def judge(made, scene, job) -> dict:
    """Variances of one sample, its seconds, and their product."""
    sizes, count = job.sizes, job.sizes["pictures"]
    seeds = range(job.seed * count, (job.seed + 1) * count)
    options = Options(**job.arm.setting)
    found = allocation.measure(scene, options, sizes["depth"], sizes["samples"], seeds)
    return {
        "direct": found.direct,
        "indirect": found.indirect,
        "variance": found.scattered,
        "milliseconds": 1e3 * found.seconds,
        "work": found.scattered * found.seconds,
    }


def over(metric: str, arm: str, less: str, part: str, differs: str) -> Outcome:
    """The ratio of two arms in one room."""
    return Outcome(metric, arm, less, [f"setting.{differs}"], part, ratio=True)


STUDY = Study(
    notebook="light_transport",
    name="estimators",
    arms=ARMS,
    seeds=range(5),
    sizes={"pixels": 48, "depth": 5, "samples": 16, "pictures": 8},
    trial={"pixels": 8, "depth": 2, "samples": 2, "pictures": 3},
    metrics={
        "direct": Metric("radiance²"),
        "indirect": Metric("radiance²"),
        "variance": Metric("radiance²"),
        "milliseconds": Metric("ms"),
        "work": Metric("radiance² s"),
    },
    parts=parts,
    judge=judge,
    outcomes={
        f"study_{room}_{label}": over(metric, arm, less, room, differs)
        for room in ROOMS
        for label, metric, arm, less, differs in (
            ("waiting_over_drawing", "variance", "bsdf", "lamp", "estimator"),
            ("both_over_drawing", "variance", "power", "lamp", "estimator"),
            ("both_over_waiting", "variance", "power", "bsdf", "estimator"),
            ("power_over_balance", "variance", "power", "balance", "heuristic"),
            ("work_of_both_over_drawing", "work", "power", "lamp", "estimator"),
            ("work_of_both_over_waiting", "work", "power", "bsdf", "estimator"),
        )
    },
    key="study_{part}_{arm}_{metric}",
    over="draws of pictures",
)
