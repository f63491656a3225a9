"""Versions, campaigns and their lists, on a socket as Amazon's client expects it.

The control plane is one path whose verb stands in the header X-Amz-Target; events and answers
have paths of their own. A request's signature is not looked at: this server is for one machine,
and binds to it alone.
"""

import collections
import contextlib
import json
import shutil
import socketserver
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler

import recommender_service as rs
import service_requests as sr
import solution_version as sv
import torch
from recommender_service import KINDS, RECIPES, Account
from service_requests import ServiceError, need

MOST_LISTS = 10_000  # that are remembered
MOST_BYTES, MOST_SECONDS = 2_000_000, 10  # of a request, and of its way here


class Service(Account):
    """An account with versions, of which one trains at a time, and campaigns; what campaigns
    use is held in memory, all else lies in files."""

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.live = {}

    def _create_solution(self, request):
        self.thing(request["datasetGroupArn"], "datasetGroup")
        need("eventType" not in request, "not built in this service: eventType")
        about = {"recipeArn": next(iter(RECIPES))} | request
        self.thing(about["recipeArn"], "recipe")
        return self._make("solution", request["name"], **about)

    def _create_solution_version(self, request):
        solution = self.thing(request["solutionArn"], "solution")
        mode, explores = request.get("trainingMode", "FULL"), _explores(solution)
        need(mode in ("FULL", "UPDATE"), f"not built: the trainingMode {mode}")
        if self.closed or self.trainer is not None:
            raise ServiceError("LimitExceededException", "one training at a time is allowed")
        group, parent = self.things[solution["datasetGroupArn"]], None
        if mode == "UPDATE":
            own = request["solutionArn"]
            own = [arn for arn in self.files if self.things[arn]["solutionArn"] == own]
            need(own and explores, "an UPDATE needs an ACTIVE version of user-personalization")
            parent = own[-1]
            fresh = self.things[parent]["imports"] == group["imports"]
            need(fresh, "all interactions were replaced by a FULL import since; train FULL")
        events, number = [[*group["imported"]], [*group["streamed"]]], uuid.uuid4().hex[:8]
        about = {k: solution[k] for k in ("solutionArn", "recipeArn", "datasetGroupArn")}
        about |= {"status": "CREATE PENDING", "trainingMode": mode, "metrics": {}}
        about |= {"imports": group["imports"], "read": [len(one) for one in events]}
        name = request.get("name", f"{solution['name'][:50]}_{number}")
        made = self._make("solutionVersion", name, **about)
        arn, folder = made["solutionVersionArn"], self.folder / number
        job = {"items": group["items"], "recipe": self.recipe, "mode": mode}
        job |= {"weight": 0.3 if explores else 0.0, "categorical": group["categorical"]}
        try:
            self.trainer = rs.started(folder)
        except OSError as error:
            self.things[arn] |= {"status": "CREATE FAILED", "failureReason": str(error)}
        else:
            task = arn, folder, self.trainer, events, job, parent
            threading.Thread(target=self._train, args=task, daemon=True).start()
        return made

    def _train(self, arn, folder, process, events, job, parent):
        reason = {}
        with self.lock:
            self.things[arn]["status"] = "CREATE IN_PROGRESS"
        try:
            read = self.things[parent]["read"] if parent else None
            new, history = sr.training_job(*events, read)
            rs.write_job(folder, new, history=history, **job)
            if parent:
                shutil.copy(self.files[parent], folder / "previous.pt")
        except Exception as error:
            reason = {"failureReason": f"the job cannot be written: {error}"}
            process.kill()
        with contextlib.suppress(OSError):  # the trainer may be dead: its end tells why
            process.stdin.write(b"go\n")
        version, outcome = rs.finished(process, folder, self.limit_s)
        process.stdin.close()
        with self.lock:
            if version is not None:
                self.files[arn] = folder.with_suffix(".pt")
                outcome["metrics"] = version.metrics
            self.things[arn] |= outcome | reason | {"lastUpdatedDateTime": self.clock()}
            self.trainer = None
        shutil.rmtree(folder, ignore_errors=True)

    def _get_solution_metrics(self, request):
        return request | {"metrics": self._active(request["solutionVersionArn"])["metrics"]}

    def _active(self, arn):
        version = self.thing(arn, "solutionVersion")
        state = version["status"]
        need(state == "ACTIVE", f"the version must be ACTIVE to answer, not {state}")
        return version

    def _create_campaign(self, request):
        version = self._active(request["solutionVersionArn"])
        config = sr.campaign_config(request, _explores(version), {})
        self._load(request["solutionVersionArn"])
        more = {"campaignConfig": config, "solutionArn": version["solutionArn"]}
        return self._make("campaign", request["name"], **request | more)

    def _update_campaign(self, request):
        campaign = self.thing(request["campaignArn"], "campaign")
        arn = request.get("solutionVersionArn", campaign["solutionVersionArn"])
        explores = _explores(self._active(arn))
        config = sr.campaign_config(request, explores, campaign["campaignConfig"])
        self._load(arn)
        campaign |= {"solutionVersionArn": arn, "campaignConfig": config}
        campaign |= {"lastUpdatedDateTime": self.clock()}
        return {"campaignArn": request["campaignArn"]}

    def _load(self, arn):
        """Hold this version in memory beside what campaigns use, and nothing else; a ValueError
        where its file cannot be read, and then nothing has changed."""
        try:
            loaded = self.live.get(arn) or sv.load(self.files[arn])
        except Exception as error:
            raise ValueError(f"the version's file cannot be read: {error}") from error
        campaigns = [one for one in self.things.values() if one["kind"] == "campaign"]
        used = {campaign["solutionVersionArn"] for campaign in campaigns}
        self.live = {one: self.live[one] for one in used} | {arn: loaded}

    def recommend(self, request, verb="GetRecommendations"):
        """The list for a user, like an item, or the order of `inputList`; it is kept
        under its recommendationId."""
        sr.checked(verb, request)
        with self.lock:
            campaign = dict(self.thing(request.get("campaignArn"), "campaign"))
            trained = self.things[campaign["solutionVersionArn"]]
            group = self.things[trained["datasetGroupArn"]]
            past = sorted(set(group["past"].get(request.get("userId"), ())))
            version = self.live[campaign["solutionVersionArn"]]
        recipe, among = RECIPES[trained["recipeArn"]], request.get("inputList")
        needed = "itemId" if recipe == KINDS[1] else "userId"
        fine = request.get(needed) and (among is not None) == (recipe == KINDS[2])
        need(fine, f"a campaign of {recipe} needs {needed}, and a verb of its own")
        count = request.get("numResults", 25) if among is None else len(among)
        fine = 1 <= count <= 500 and len(set(among or ())) == len(among or ())
        need(
            fine, f"numResults, or different items of inputList, must be 1 to 500, not {count}"
        )
        if recipe == KINDS[1]:
            found = sv.similar(version, request["itemId"], count)
        else:
            config = campaign["campaignConfig"].get("itemExplorationConfig", {})
            weight = float(config.get("explorationWeight", 0))
            days = float(config.get("explorationItemAgeCutOff", 30))
            luck = torch.Generator().manual_seed(uuid.uuid4().int % 2**62)
            taken = [item for _, item in past]
            found = sv.answer(version, taken, weight, days, count, among, luck)
        name = f"RID-{uuid.uuid4()}"
        with self.lock:
            lists = self.answered.setdefault(
                group["datasetGroupArn"], collections.OrderedDict()
            )
            sr.remember(lists, name, MOST_LISTS, [item for item, _ in found])
        rows = [{"itemId": item, "score": score} for item, score in found]
        what = "itemList" if among is None else "personalizedRanking"
        return {what: rows, "recommendationId": name}


def _explores(thing):
    return RECIPES[thing["recipeArn"]] == KINDS[0]


class Connection(BaseHTTPRequestHandler):
    """One client, a thread of its own; who is silent for too long is not waited for."""

    protocol_version, disable_nagle_algorithm = "HTTP/1.1", True
    paths = {"/recommendations": "GetRecommendations", "/events": "PutEvents"}
    paths["/personalize-ranking"] = "GetPersonalizedRanking"

    def setup(self):
        self.timeout = MOST_SECONDS  # of each read
        super().setup()

    def do_POST(self):
        status, code = 200, ""
        try:
            said = self._answer()
        except (ServiceError, ValueError) as error:
            code, said = getattr(error, "code", "InvalidInputException"), str(error)
            status = 404 if code == "ResourceNotFoundException" else 400
        except Exception as error:
            status, code, said = 500, "InternalServerException", type(error).__name__
        body = json.dumps({"__type": code, "message": said} if code else said).encode()
        self.send_response(status)
        self.send_header("x-amzn-errortype", code)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _answer(self):
        service, length = self.server.service, int(self.headers.get("content-length", 0))
        raw, until, piece = b"", time.monotonic() + MOST_SECONDS, b"."
        with contextlib.suppress(TimeoutError):
            while piece and len(raw) < min(length, 2 * MOST_BYTES) and time.monotonic() < until:
                piece = self.rfile.read1(length - len(raw))
                raw += piece
        chunked = "transfer-encoding" in self.headers
        self.close_connection |= chunked or len(raw) != length
        need(
            not chunked, "a request comes in one piece, with its content-length, not in chunks"
        )
        fine = len(raw) == length <= MOST_BYTES
        need(fine, f"a request has {MOST_BYTES} bytes at most, within {MOST_SECONDS} seconds")
        try:
            request = json.loads(raw)
        except RecursionError as error:
            raise ValueError("the request is nested too deep") from error
        need(isinstance(request, dict), "a request is a JSON object")
        verb = self.headers.get("x-amz-target", "").removeprefix("AmazonPersonalize.")
        verb = verb if self.path == "/" else self.paths.get(self.path, self.path)
        if verb == "PutEvents":
            return service.put_events(request)
        known = self.path in self.paths
        return service.recommend(request, verb) if known else service.call(verb, request)

    def log_message(self, *_):
        """Nothing: answers and states tell what went wrong."""


class Server(socketserver.ThreadingTCPServer):
    """A thread a connection."""

    daemon_threads, request_queue_size = True, 128

    def handle_error(self, *_):
        """Nothing: the client has gone."""


@contextlib.contextmanager
def serving(service):
    """The address of the service; server and a running trainer end with the block."""
    with Server(("127.0.0.1", 0), Connection) as server:
        server.service = service
        threading.Thread(target=server.serve_forever, args=[0.05], daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            service.close()
