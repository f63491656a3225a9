"""The service behind the verbs: what exists, in which state, trained by which process, and what
a campaign answers now.

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
import torch
from service_requests import ServiceError, clicks_of, past_of

HERE = "arn:aws:personalize:local:000000000000"
KINDS = ("user-personalization", "similar-items", "personalized-ranking")
RECIPES = {f"arn:aws:personalize:::recipe/aws-{name}": name for name in KINDS}
DESCRIBED = ("dataset-group", "dataset-import-job", "solution-version", "campaign")
PRIVATE = {"kind", "items", "bulk", "past", "group", "type", "versions", "fields"}
MOST_EVENTS, MOST_LISTS, MOST_IDS = 500_000, 10_000, 100_000  # streamed, remembered, remembered
SIGNS = set(string.ascii_letters + string.digits + "-_")


class Service:
    """One account's resources. `folder` holds trained files, `buckets` what s3://… means;
    a training is ended after `limit_s`."""

    def __init__(self, folder, buckets, recipe=None, limit_s=600.0, clock=time.time):
        self.folder, self.buckets = Path(folder), Path(buckets).resolve()
        self.recipe, self.limit_s, self.clock = recipe or {}, limit_s, clock
        self.lock, self.trainer, self.closed = threading.RLock(), None, False
        self.things, self.versions, self.trackers = {}, {}, {}
        self.streamed, self.dropped = collections.defaultdict(list), collections.Counter()
        self.answered, self.event_ids = collections.OrderedDict(), collections.OrderedDict()

    def call(self, verb, request):
        """The answer of the control plane. Raises ServiceError or ValueError."""
        sr.refuse_unbuilt(request)
        words = "".join(f"-{c.lower()}" if c.isupper() else c for c in verb)[1:]
        with self.lock:
            if words.startswith("describe-") and words[9:] in DESCRIBED:
                return self._describe(verb[8].lower() + verb[9:], words[9:], request)
            action = getattr(self, "_" + words.replace("-", "_"), None)
            if action is None or not verb.startswith(("Create", "Update", "Get")):
                raise ServiceError("UnknownOperationException", f"{verb} is not built here")
            return action(request)

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
        return {
            "schemaArn": self._make("schema", request.get("name"), fields=request["schema"])
        }

    def _create_dataset_group(self, request):
        arn = self._make("dataset-group", request.get("name"), items={}, bulk=[], past={})
        return {"datasetGroupArn": arn}

    def _create_dataset(self, request):
        group = self.thing(request.get("datasetGroupArn"), "dataset-group")
        kind = str(request.get("datasetType")).capitalize()
        fields = sr.parse_schema(self.thing(request.get("schemaArn"), "schema")["fields"], kind)
        more = {"type": kind, "fields": fields, "group": request["datasetGroupArn"]}
        return {"datasetArn": self._make("dataset", f"{group['name']}-{kind.lower()}", **more)}

    def _create_dataset_import_job(self, request):
        dataset = self.thing(request.get("datasetArn"), "dataset")
        mode = sr.one_of(request, "importMode", ("FULL", "INCREMENTAL"))
        address = str((request.get("dataSource") or {}).get("dataLocation"))
        path = (self.buckets / address.removeprefix("s3://")).resolve()
        inside = address.startswith("s3://") and path.is_relative_to(self.buckets)
        sr.need(
            inside and path.is_file(), f"dataLocation must be a file's s3://…, not {address!r}"
        )
        more = {"importMode": mode, "datasetArn": request["datasetArn"]}
        arn = self._make("dataset-import-job", request.get("jobName"), **more)
        try:
            rows = sr.read_rows(path.read_text("utf-8"), dataset["fields"], self.clock())
        except ValueError as error:  # nothing of a bad file is taken
            self.things[arn] |= {"status": "CREATE FAILED", "failureReason": str(error)}
            return {"datasetImportJobArn": arn}
        group, kept = self.things[dataset["group"]], mode == "INCREMENTAL"
        if dataset["type"] == "Items":
            items = {row["ITEM_ID"]: row for row in rows}
            group["items"] = (group["items"] if kept else {}) | items
        else:
            group["bulk"] = sr.merged(group["bulk"] if kept else [], sr.events_of(rows))
            group["past"] = past_of(sr.merged(group["bulk"], self.streamed[dataset["group"]]))
        return {"datasetImportJobArn": arn}

    def _create_event_tracker(self, request):
        self.thing(request.get("datasetGroupArn"), "dataset-group")
        tracking, group = str(uuid.uuid4()), request["datasetGroupArn"]
        arn = self._make("event-tracker", request.get("name"), group=group)
        self.trackers[tracking] = group
        return {"eventTrackerArn": arn, "trackingId": tracking}

    def put_events(self, request):
        """Take up to ten events of one user, all of them or none. What came before, by its
        eventId or in every field, changes nothing."""
        group, given = self.trackers.get(request.get("trackingId")), request.get("eventList")
        fine = group and isinstance(given, list) and 1 <= len(given) <= 10
        sr.need(fine, "trackingId must be a tracker's, and eventList hold 1 to 10 events")
        user = request.get("userId") or f"session {request.get('sessionId')}"
        events = [sr.parse_event(user, one, self.clock()) for one in given]
        with self.lock:
            streamed, past = self.streamed[group], self.things[group]["past"]
            room = MOST_EVENTS - len(streamed) - len(events)
            sr.need(
                room >= 0, f"{MOST_EVENTS} streamed events are held and no more; import them"
            )
            for one, event in zip(given, events, strict=True):
                if not sr.remember(self.event_ids, one.get("eventId") or event, MOST_IDS):
                    continue
                lost = event.recommendation and event.recommendation not in self.answered
                self.dropped["lists that are not remembered"] += bool(
                    lost and not event.impression
                )
                streamed.append(event)
                row = event.time, event.kind, event.item or ""
                bisect.insort(past.setdefault(user, []), row)
        return {}

    def put_items(self, request):
        """Take new items, or new values of known ones; the next training knows them."""
        dataset, given = self.thing(request.get("datasetArn"), "dataset"), request.get("items")
        fine = dataset["type"] == "Items" and isinstance(given, list) and 1 <= len(given) <= 10
        sr.need(fine, "datasetArn must be that of items, and items hold 1 to 10 of them")
        rows = [sr.item_row(one, dataset["fields"], self.clock()) for one in given]
        with self.lock:
            self.things[dataset["group"]]["items"] |= {row["ITEM_ID"]: row for row in rows}
        return {}

    # versions

    def _create_solution(self, request):
        self.thing(request.get("datasetGroupArn"), "dataset-group")
        recipe = sr.one_of(request, "recipeArn", tuple(RECIPES))
        more = {"group": request["datasetGroupArn"], "recipeArn": recipe, "versions": []}
        more["eventType"] = request.get("eventType") or "click"
        return {"solutionArn": self._make("solution", request.get("name"), **more)}

    def _create_solution_version(self, request):
        solution = self.thing(request.get("solutionArn"), "solution")
        mode = sr.one_of(request, "trainingMode", ("FULL", "UPDATE"))
        if self.closed or self.trainer is not None:
            raise ServiceError("LimitExceededException", "one training at a time is allowed")
        trained = [self.versions[arn] for arn in solution["versions"] if arn in self.versions]
        sr.need(
            trained or mode == "FULL", "an UPDATE needs an ACTIVE version; train FULL first"
        )
        number = uuid.uuid4().hex[:8]
        more = {"status": "CREATE PENDING", "trainingMode": mode, "group": solution["group"]}
        more |= {"solutionArn": request["solutionArn"], "recipeArn": solution["recipeArn"]}
        arn = self._make("solution-version", f"{solution['name'][:50]}_{number}", **more)
        folder = self.folder / number
        folder.mkdir(parents=True)
        parent = trained[-1] if mode == "UPDATE" else None
        job = json.dumps(self._job(solution, parent))
        (folder / "job.json").write_text(job, encoding="utf-8")
        if parent is not None:
            sv.save(parent, folder / "previous.pt")
        command = [sys.executable, "-m", "solution_version", str(folder)]
        with open(folder / "stderr", "wb") as said:
            self.trainer = subprocess.Popen(command, cwd=Path(__file__).parent, stderr=said)
        solution["versions"].append(arn)
        job = arn, folder, self.trainer
        threading.Thread(target=self._wait, args=job, daemon=True).start()
        return {"solutionVersionArn": arn}

    def _job(self, solution, parent):
        """What a trainer reads: for an UPDATE the events that came since its parent's."""
        group, streamed = self.things[solution["group"]], self.streamed[solution["group"]]
        read, kind = parent.read if parent else 0, solution["eventType"]
        events = streamed[read:] if parent else sr.merged(group["bulk"], streamed)
        before = past_of(sr.merged(group["bulk"], streamed[:read])) if parent else {}
        rows = [vars(e) | {"kind": "click" if e.kind == kind else "seen"} for e in events]
        job = {"mode": "UPDATE" if parent else "FULL", "read": len(streamed), "events": rows}
        job["history"] = {user: clicks_of(past, kind) for user, past in before.items()}
        return job | {"items": group["items"], "answered": self.answered, "recipe": self.recipe}

    def _wait(self, arn, folder, process):
        with self.lock:
            self.things[arn]["status"] = "CREATE IN_PROGRESS"
        version, outcome = sv.finished(process, folder, self.limit_s)
        with self.lock:
            if version is not None:
                self.versions[arn] = version
            self.things[arn] |= outcome | {"lastUpdatedDateTime": self.clock()}
            self.trainer = None
        shutil.rmtree(folder, ignore_errors=True)

    def _get_solution_metrics(self, request):
        arn = request.get("solutionVersionArn")
        self._active(arn)
        return {"solutionVersionArn": arn, "metrics": self.versions[arn].metrics}

    # campaigns

    def _active(self, arn):
        version = self.thing(arn, "solution-version")
        state = version["status"]
        sr.need(state == "ACTIVE", f"the version must be ACTIVE to answer, not {state}")
        return version

    def _create_campaign(self, request):
        version = self._active(request.get("solutionVersionArn"))
        config = sr.campaign_config(request, RECIPES[version["recipeArn"]] == KINDS[0], {})
        more = {"solutionVersionArn": request["solutionVersionArn"], "campaignConfig": config}
        return {"campaignArn": self._make("campaign", request.get("name"), **more)}

    def _update_campaign(self, request):
        campaign = self.thing(request.get("campaignArn"), "campaign")
        arn = request.get("solutionVersionArn", campaign["solutionVersionArn"])
        explores = RECIPES[self._active(arn)["recipeArn"]] == KINDS[0]
        config = sr.campaign_config(request, explores, campaign["campaignConfig"])
        changed = {"solutionVersionArn": arn, "campaignConfig": config}
        self.things[request["campaignArn"]] |= changed | {"lastUpdatedDateTime": self.clock()}
        return {"campaignArn": request["campaignArn"]}

    def recommend(self, request, ranking=False):
        """The list for a user, like an item, or the order of `inputList`; it is kept
        under its recommendationId."""
        sr.refuse_unbuilt(request)
        with self.lock:
            campaign = dict(self.thing(request.get("campaignArn"), "campaign"))
            trained = self.things[campaign["solutionVersionArn"]]
            kind = self.things[trained["solutionArn"]]["eventType"]
            past = self.things[trained["group"]]["past"].get(str(request.get("userId")), [])
            clicks = clicks_of(past, kind)
            version = self.versions[campaign["solutionVersionArn"]]
        recipe, count = RECIPES[trained["recipeArn"]], request.get("numResults", 25)
        needed = "itemId" if recipe == "similar-items" else "userId"
        fine = isinstance(request.get(needed), str) and ranking == (recipe == KINDS[2])
        sr.need(fine, f"a campaign of {recipe} needs {needed}, and a verb of its own")
        fine = type(count) is int and 1 <= count <= 500
        sr.need(fine, f"numResults must be 1 to 500, not {count!r}")
        among = sr.names("inputList", request.get("inputList")) if ranking else None
        if recipe == "similar-items":
            found = sv.similar(version, request["itemId"], count)
        else:
            config = campaign["campaignConfig"].get("itemExplorationConfig", {})
            weight = float(config.get("explorationWeight", 0))
            days = float(config.get("explorationItemAgeCutOff", 30))
            count = len(among) if ranking else count
            luck = torch.Generator().manual_seed(uuid.uuid4().int % 2**62)
            found = sv.answer(version, clicks, weight, days, count, among, luck)
        name = f"RID-{uuid.uuid4()}"
        with self.lock:
            sr.remember(self.answered, name, MOST_LISTS, [item for item, _ in found])
        rows = [{"itemId": item, "score": score} for item, score in found]
        return {
            "personalizedRanking" if ranking else "itemList": rows,
            "recommendationId": name,
        }
