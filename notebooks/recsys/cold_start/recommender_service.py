"""What exists in the service, in which state; its data; the processes that train.

Shapes and names are those of Amazon Personalize's API; the algorithm behind them is ours.
Training runs in a process of its own, one at a time, with a limit of time; whatever becomes of
it, campaigns go on from the versions that they have. Batch jobs, filters, promotions, contexts
are not built: a request that asks for them is refused, never half obeyed. A ValueError is the
service's InvalidInputException. All state is in memory but the trained files.
"""

import bisect
import collections
import json
import shutil
import string
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import service_requests as sr
import solution_version as sv
from service_requests import ServiceError, past_of

HERE = "arn:aws:personalize:local:000000000000"
KINDS = ("user-personalization", "similar-items", "personalized-ranking")
RECIPES = {f"arn:aws:personalize:::recipe/aws-{name}": name for name in KINDS}
DESCRIBED = ("dataset-group", "dataset-import-job", "solution-version", "campaign")
PRIVATE = {"kind", "items", "bulk", "past", "group", "type", "versions", "fields"}
PRIVATE |= {"imports", "metrics", "read"}
MOST_EVENTS, MOST_IDS = 500_000, 100_000  # streamed, remembered
SIGNS = set(string.ascii_letters + string.digits + "-_")


class Account:
    """One account's data and versions. `folder` holds trained files, `buckets` what s3://…
    means; a training is ended after `limit_s`."""

    def __init__(self, folder, buckets, recipe=None, limit_s=600.0, clock=time.time):
        self.folder, self.buckets = Path(folder), Path(buckets).resolve()
        self.recipe, self.limit_s, self.clock = recipe or {}, limit_s, clock
        self.lock, self.importing = threading.RLock(), threading.Lock()
        self.trainer, self.closed, self.things, self.trackers = None, False, {}, {}
        self.files = {}  # of trained versions
        self.streamed = collections.defaultdict(list)
        self.answered, self.event_ids = {}, collections.OrderedDict()

    def call(self, verb, request):
        """The answer of the control plane. Raises ServiceError or ValueError."""
        words = "".join(f"-{c.lower()}" if c.isupper() else c for c in verb)[1:]
        if not words.startswith("describe-"):
            sr.checked(verb, request)
        if verb == "CreateDatasetImportJob":
            with self.importing:  # files are read while answers go on
                return self._create_dataset_import_job(request)
        with self.lock:
            if words.startswith("describe-") and words[9:] in DESCRIBED:
                return self._describe(verb[8].lower() + verb[9:], words[9:], request)
            return getattr(self, "_" + words.replace("-", "_"))(request)

    def close(self):
        """End a running trainer; nothing is trained after this."""
        with self.lock:
            self.closed, process = True, self.trainer
        if process is not None:
            process.kill()

    def thing(self, arn, kind):
        """The resource of this ARN. Raises ServiceError where there is none of this kind."""
        found = self.things.get(arn) if isinstance(arn, str) else None
        if found is None or found["kind"] != kind:
            raise ServiceError("ResourceNotFoundException", f"there is no {kind} {arn!r}")
        return found

    def _make(self, kind, name, **fields):
        fine = isinstance(name, str) and 0 < len(name) < 64 and set(name) <= SIGNS
        sr.need(fine, f"a name has 1 to 63 letters, digits, - or _, not {name!r}")
        arn, now = f"{HERE}:{kind}/{name}", self.clock()
        if arn in self.things:
            raise ServiceError("ResourceAlreadyExistsException", f"{arn} exists already")
        self.things[arn] = {"kind": kind, "name": name, "status": "ACTIVE", **fields}
        self.things[arn] |= {"creationDateTime": now, "lastUpdatedDateTime": now}
        return arn

    def _describe(self, name, kind, request):
        fields = self.thing(request.get(f"{name}Arn"), kind)
        told = {key: value for key, value in fields.items() if key not in PRIVATE}
        return {name: {f"{name}Arn": request[f"{name}Arn"]} | told}

    # data

    def _create_schema(self, request):
        sr.parse_schema(request.get("schema"))
        arn = self._make("schema", request.get("name"), fields=request["schema"])
        return {"schemaArn": arn}

    def _create_dataset_group(self, request):
        empty = {"items": {}, "bulk": [], "past": {}, "imports": 0, "categorical": []}
        return {"datasetGroupArn": self._make("dataset-group", request.get("name"), **empty)}

    def _create_dataset(self, request):
        group = self.thing(request.get("datasetGroupArn"), "dataset-group")
        kind = str(request.get("datasetType")).capitalize()
        text = self.thing(request.get("schemaArn"), "schema")["fields"]
        fields, marked = sr.parse_schema(text, kind)
        more = {"type": kind, "fields": fields, "group": request["datasetGroupArn"]}
        arn = self._make("dataset", f"{group['name']}-{kind.lower()}", **more)
        group["categorical"] += marked
        return {"datasetArn": arn}

    def _create_dataset_import_job(self, request):
        dataset = self.thing(request.get("datasetArn"), "dataset")
        mode = sr.one_of(request, "importMode", ("FULL", "INCREMENTAL"))
        address = str((request.get("dataSource") or {}).get("dataLocation"))
        path = (self.buckets / address.removeprefix("s3://")[:200]).resolve()
        inside = address.startswith("s3://") and path.is_relative_to(self.buckets)
        fine = inside and path.is_file()
        sr.need(fine, f"dataLocation is no file's s3://… address: {address[:80]!r}")
        group, items = self.things[dataset["group"]], dataset["type"] == "Items"
        first = not group["items" if items else "bulk"]
        sr.need(mode == "FULL" or not first, "the first import of a dataset must be FULL")
        more = {"importMode": mode, "datasetArn": request["datasetArn"]}
        more["status"] = "CREATE PENDING"
        with self.lock:
            arn = self._make("dataset-import-job", request.get("jobName"), **more)
        try:
            rows = sr.read_rows(path.read_text("utf-8"), dataset["fields"], self.clock())
            kept = mode == "INCREMENTAL"
            if items:
                found = {row["ITEM_ID"]: row for row in rows}
                changed = {"items": (group["items"] if kept else {}) | found}
            else:
                changed = self._imported(dataset["group"], rows, kept)
            outcome = {"status": "ACTIVE"}
        except Exception as error:  # nothing of a bad file is taken
            changed = {}
            outcome = {"status": "CREATE FAILED", "failureReason": str(error)[:500]}
        with self.lock:
            late = self.streamed[dataset["group"]][changed.pop("seen", MOST_EVENTS) :]
            group |= changed
            for event in late:  # that came while the file was read
                self._remember_past(group, event)
            self.things[arn] |= outcome | {"lastUpdatedDateTime": self.clock()}
        return {"datasetImportJobArn": arn}

    def _imported(self, group, rows, kept):
        """What changes in the group of these interactions; `seen` streamed events are in it."""
        streamed = list(self.streamed[group])
        bulk = sr.merged(self.things[group]["bulk"] if kept else [], sr.events_of(rows))
        found = {"bulk": bulk, "past": past_of([*bulk, *streamed]), "seen": len(streamed)}
        return found | {"imports": self.things[group]["imports"] + 1}

    def _create_event_tracker(self, request):
        self.thing(request.get("datasetGroupArn"), "dataset-group")
        tracking, group = str(uuid.uuid4()), request["datasetGroupArn"]
        arn = self._make("event-tracker", request.get("name"), group=group)
        self.trackers[tracking] = group
        return {"eventTrackerArn": arn, "trackingId": tracking}

    def put_events(self, request):
        """Take up to ten events of one user, all of them or none; who has no userId is known by
        the sessionId. What came before, by its eventId or in every field, changes nothing."""
        sr.checked("PutEvents", request)
        group, given = self.trackers.get(request.get("trackingId")), request.get("eventList")
        fine = group and isinstance(given, list) and 1 <= len(given) <= 10
        sr.need(fine, "trackingId must be a tracker's, and eventList hold 1 to 10 events")
        user = request.get("userId") or request.get("sessionId")
        sr.names("userId or sessionId", [user])
        events = [sr.parse_event(user, one, self.clock()) for one in given]
        with self.lock:
            room = MOST_EVENTS - len(self.streamed[group]) - len(events)
            sr.need(room >= 0, f"{MOST_EVENTS} streamed events are held; import them")
            for one, event in zip(given, events, strict=True):
                key = group, one.get("eventId") or event
                if not sr.remember(self.event_ids, key, MOST_IDS):
                    continue
                event = sr.resolved(event, self.answered.get(group, {}))
                self.streamed[group].append(event)
                self._remember_past(self.things[group], event)
        return {}

    @staticmethod
    def _remember_past(group, event):
        if event.kind == "click" and event.item is not None:
            bisect.insort(group["past"].setdefault(event.user, []), (event.time, event.item))


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
