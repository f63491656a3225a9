"""What exists in the service, in which state; its data; the processes that train.

Verbs, fields and answers are those of Amazon Personalize's API, by botocore's model of it; the
algorithm behind them is ours. What is not built is refused by name, never half obeyed. A
ValueError is the service's InvalidInputException. All state is in memory but the trained files.
"""

import collections
import json
import re
import shutil
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import service_requests as sr
import solution_version as sv
from service_requests import ServiceError

HERE = "arn:aws:personalize:local:000000000000"
KINDS = ("user-personalization", "similar-items", "personalized-ranking")
RECIPES = {f"arn:aws:personalize:::recipe/aws-{name}": name for name in KINDS}
THINGS = ("recipe", "schema", "datasetGroup", "dataset", "datasetImportJob", "eventTracker")
THINGS += ("solution", "solutionVersion", "campaign")  # that can be described and listed
MOST_EVENTS, MOST_IDS = 500_000, 100_000  # streamed, remembered


class Account:
    """One account's data and versions. `folder` holds trained files, `buckets` what s3://…
    means; a training is ended after `limit_s`."""

    def __init__(self, folder, buckets, recipe=None, limit_s=600.0, clock=time.time):
        self.folder, self.buckets = Path(folder), Path(buckets).resolve()
        self.recipe, self.limit_s, self.clock = recipe or {}, limit_s, clock
        self.lock, self.importing = threading.RLock(), threading.Lock()
        self.trainer, self.closed, self.things, self.trackers = None, False, {}, {}
        self.files = {}  # of trained versions
        self.answered, self.event_ids = {}, collections.OrderedDict()
        for arn, name in RECIPES.items():
            about = {"name": f"aws-{name}", "recipeArn": arn, "status": "ACTIVE"}
            self.things[arn] = {"kind": "recipe", **about}

    def call(self, verb, request):
        """The answer of the control plane. Raises ServiceError or ValueError."""
        begins, kind = re.match("([A-Z][a-z]*|)(.*)", verb).groups()
        kind, own = kind[:1].lower() + kind[1:], re.sub("([A-Z])", r"_\1", verb).lower()
        shown = {"Describe": kind, "List": kind.removesuffix("s")}.get(begins) in THINGS
        made = begins in ("Create", "Update", "Get") and hasattr(self, own)
        if sr.operation(verb) is None or not (shown or made):
            raise ServiceError("UnknownOperationException", f"{verb[:80]} is not built here")
        # an empty text of a field that is not built says nothing: a client's first nextToken
        request = {key: one for key, one in request.items() if one != "" or key in sr.OBEYED}
        sr.checked(verb, request)
        if verb == "CreateDatasetImportJob":
            with self.importing:  # files are read while answers go on
                return self._create_dataset_import_job(request)
        with self.lock:
            return self._shown(verb, kind, request) if shown else getattr(self, own)(request)

    def _shown(self, verb, kind, request):
        """What Describe… and List… answer: the fields that the API's model has for them."""
        name, shape = next(iter(sr.operation(verb).output_shape.members.items()))
        if verb.startswith("Describe"):
            found = self.thing(request[f"{kind}Arn"], kind)
            return {name: {key: found[key] for key in shape.members if key in found}}
        own = [one for one in self.things.values() if one["kind"] == kind.removesuffix("s")]
        fields = shape.member.members
        own = [one for one in own if all(one.get(key) == arn for key, arn in request.items())]
        return {name: [{key: one[key] for key in fields if key in one} for one in own]}

    def close(self):
        """End a running trainer; nothing is trained after this."""
        with self.lock:
            self.closed, process = True, self.trainer
        if process is not None:
            process.kill()

    def thing(self, arn, kind):
        """The resource of this ARN. Raises ServiceError where there is none of this kind."""
        found = self.things.get(arn)
        if found is None or found["kind"] != kind:
            raise ServiceError("ResourceNotFoundException", f"there is no {kind} {arn!r}")
        return found

    def _make(self, kind, label, **fields):
        words = re.sub("([A-Z])", r"-\1", kind).lower()
        arn, now = f"{HERE}:{words}/{label}", self.clock()
        if arn in self.things:
            raise ServiceError("ResourceAlreadyExistsException", f"{arn} exists already")
        self.things[arn] = {"kind": kind, "name": label, f"{kind}Arn": arn, "status": "ACTIVE"}
        self.things[arn] |= {"creationDateTime": now, "lastUpdatedDateTime": now} | fields
        return {f"{kind}Arn": arn}

    # data

    def _create_schema(self, request):
        sr.parse_schema(request["schema"])
        return self._make("schema", request["name"], **request)

    def _create_dataset_group(self, request):
        empty = {"items": {}, "imported": [], "streamed": [], "past": {}, "categorical": []}
        return self._make("datasetGroup", request["name"], **request, **empty, imports=0)

    def _create_dataset(self, request):
        group = self.thing(request["datasetGroupArn"], "datasetGroup")
        kind = request["datasetType"].capitalize()
        text = self.thing(request["schemaArn"], "schema")["schema"]
        fields, marked = sr.parse_schema(text, kind)
        about = request | {"datasetType": kind, "fields": fields}
        made = self._make("dataset", f"{group['name']}-{kind.lower()}", **about)
        group["categorical"] += marked
        return made

    def _create_dataset_import_job(self, request):
        dataset, address = self.thing(request["datasetArn"], "dataset"), request["dataSource"]
        address = address.get("dataLocation", "")
        path = (self.buckets / address.removeprefix("s3://")).resolve()
        fine = address.startswith("s3://") and path.is_relative_to(self.buckets)
        fine = fine and path.is_file()
        sr.need(fine, f"dataLocation is no file's s3://… address: {address[:80]!r}")
        group, what = self.things[dataset["datasetGroupArn"]], "imported"
        what = "items" if dataset["datasetType"] == "Items" else what
        about = {"importMode": "FULL", "status": "CREATE PENDING"} | request
        kept = about["importMode"] == "INCREMENTAL"
        sr.need(group[what] or not kept, "the first import of a dataset must be FULL")
        with self.lock:
            made = self._make("datasetImportJob", request["jobName"], **about)
        outcome, rows = {"status": "ACTIVE"}, None
        try:
            rows = sr.read_rows(path.read_text("utf-8"), dataset["fields"], self.clock())
            found = sr.events_of(rows) if what == "imported" else rows
        except Exception as error:  # nothing of a bad file is taken
            outcome = {"status": "CREATE FAILED", "failureReason": str(error)[:500]}
        with self.lock:
            if rows and what == "items":
                new = {row["ITEM_ID"]: row for row in found}
                group["items"] = (group["items"] if kept else {}) | new
            elif rows:
                old = group["imported"] if kept else []
                group["imported"] = list(dict.fromkeys([*old, *found]))
                group["past"] = sr.past_of([*group["imported"], *group["streamed"]])
                group["imports"] += not kept
            self.things[made["datasetImportJobArn"]] |= outcome
            self.things[made["datasetImportJobArn"]]["lastUpdatedDateTime"] = self.clock()
        return made

    def _create_event_tracker(self, request):
        self.thing(request["datasetGroupArn"], "datasetGroup")
        tracking = str(uuid.uuid4())
        made = self._make("eventTracker", request["name"], **request, trackingId=tracking)
        self.trackers[tracking] = request["datasetGroupArn"]
        return made | {"trackingId": tracking}

    def put_events(self, request):
        """Take up to ten events of one user, all of them or none; who has no userId is known by
        the sessionId. What came before, by its eventId or in every field, changes nothing."""
        sr.checked("PutEvents", request)
        arn = self.trackers.get(request["trackingId"])
        sr.need(arn, "trackingId must be a tracker's")
        user, given = request.get("userId", request["sessionId"]), request["eventList"]
        with self.lock:
            group, lists = self.things[arn], self.answered.get(arn, {})
            events = [sr.parse_event(user, one, self.clock(), lists) for one in given]
            room = MOST_EVENTS - len(group["streamed"]) - len(events)
            sr.need(room >= 0, f"{MOST_EVENTS} streamed events are held; import them")
            for one, event in zip(given, events, strict=True):
                key = arn, one.get("eventId") or event
                if sr.remember(self.event_ids, key, MOST_IDS):
                    group["streamed"].append(event)
                    for user, rows in sr.past_of([event]).items():
                        group["past"].setdefault(user, []).extend(rows)
        return {}


def started(folder):
    """A trainer's process, which waits for the folder's job to be written."""
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "solution_version", str(folder)]
    channels = {"stdin": subprocess.PIPE, "bufsize": 0, "cwd": Path(__file__).parent}
    with open(folder / "stderr", "wb") as said:
        return subprocess.Popen(command, stderr=said, **channels)


def write_job(folder, events, **more):
    """Write what the trainer reads, an event a line: one JSON text of all events would keep
    every other thread of the service waiting while it is made."""
    with open(folder / "events.jsonl", "w", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(vars(event))}\n" for event in events)
    (folder / "job.json").write_text(json.dumps(more), encoding="utf-8")


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
        sr.need(process.returncode >= 0, why)
        if process.returncode:
            said = (folder / "stderr").read_text("utf-8", "replace").strip().splitlines()
            raise ValueError(said[-1] if said else "the trainer gave no reason")
        found = sv.load(folder / "version.pt")
        shutil.move(folder / "version.pt", folder.with_suffix(".pt"))
        return found, {"status": "ACTIVE"}
    except Exception as error:  # whatever it was belongs into the version's state
        return None, {"status": "CREATE FAILED", "failureReason": str(error)[-500:]}
