"""The study: a machine that answers by text on a day when more call than the clerks can take.

    make study CHAPTERS=language/city_search STUDY=wait

A seed draws a day's people: when they ask, and whether the machine would answer and be wrong.
Every arm meets the same people, who call, wait and bear the same. The day has a crowd at noon,
and most of those who hang up call again, so no formula of a steady queue is asked. The rates
and shares are assumptions, fixed before the first day ran; no city's log is in them.
"""

from helpers.study import Arm, Job, Metric, Outcome, Part, Study

from .callbacks import Counter, Machine, asked, day

RATES = (1.0, 1.5, 2.0, 3.0, 4.0, 3.0, 2.0, 2.0, 1.5, 1.0)  # people a minute, hour by hour
COUNTER = Counter(clerks=10, call=5.0, patience=10.0, again=0.7)


def parts(seed: int, sizes: dict) -> dict[str, Part]:
    """{"day": the people of a day}, whose units are the times at which they ask."""
    people = asked(list(RATES), sizes["hour"], seed)
    return {"day": Part(people, [(seed, float(at)) for at in people.at])}


def begin(word: str, job: Job) -> Machine:
    """The machine of an arm: none of it learns."""
    return {"machine": Machine}[word](**job.arm.setting)


def judge(made: Machine, people, job: Job) -> dict:
    """What the people of the day meet at the counter with this machine beside it."""
    return day(people, COUNTER, made)._asdict()


def arm(answered: float, wrong: float = 0.0) -> Arm:
    """A machine that answers this share, of which the share `wrong` is wrong."""
    setting = {"answered": answered, "wrong": wrong}
    return Arm(test=("day",), start="machine", setting=setting)


ARMS = {"clerks": arm(0.0), "few": arm(0.15), "some": arm(0.3), "most": arm(0.6)}
ARMS["some_wrong"] = arm(0.3, 0.3)
ARMS["all_wrong"] = arm(0.3, 1.0)


def over(name: str, metric: str = "wait_a_call", less: str = "clerks") -> Outcome:
    """The ratio of an arm's metric to that of the clerks alone."""
    differs = ["setting.answered"] + ["setting.wrong"] * (ARMS[name].setting["wrong"] > 0)
    return Outcome(metric, name, less, differs, ratio=True)


STUDY = Study(
    notebook="city_conversation",
    name="wait",
    arms=ARMS,
    seeds=range(20),
    sizes={"hour": 60.0},
    trial={"hour": 30.0},
    metrics={
        "wait": Metric("min"),
        "wait_a_call": Metric("min"),
        "lost": Metric("%", 100.0),
        "calls": Metric("calls a person"),
    },
    parts=parts,
    begin=begin,
    judge=judge,
    outcomes={f"study_{name}_over_clerks": over(name) for name in ARMS if name != "clerks"}
    | {
        "study_calls_over_clerks": over("some_wrong", "calls"),
        "study_wrong_over_right": Outcome(
            "wait_a_call", "some_wrong", "some", ["setting.wrong"], ratio=True
        ),
    },
    over="days",
)
