"""Versions, campaigns and their lists, on a socket as Amazon's client expects it.

The control plane is one path whose verb stands in the header X-Amz-Target; events and answers
have paths of their own. A request's signature is not looked at: this server is for one machine,
and binds to it alone.
"""

import asyncio
import collections
import contextlib
import json
import shutil
import socket
import threading
import time
import uuid

import recommender_service as rs
import service_requests as sr
import solution_version as sv
import torch
import uvicorn
from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from recommender_service import KINDS, RECIPES, Account
from service_requests import ServiceError, need
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_LISTS = 10_000  # that are remembered
MOST_BYTES, MOST_SECONDS = 2_000_000, 10  # of a request, and of its way here


class Service(Account):
    """An account with versions, of which one trains at a time, and campaigns; what campaigns
    use is held in memory, all else lies in files."""

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.live = {}

    # versions

    def _create_solution(self, request):
        self.thing(request.get("datasetGroupArn"), "dataset-group")
        recipe = sr.one_of(request, "recipeArn", tuple(RECIPES))
        more = {"group": request["datasetGroupArn"], "recipeArn": recipe, "versions": []}
        return {"solutionArn": self._make("solution", request.get("name"), **more)}

    def _create_solution_version(self, request):
        solution = self.thing(request.get("solutionArn"), "solution")
        mode = sr.one_of(request, "trainingMode", ("FULL", "UPDATE"))
        if self.closed or self.trainer is not None:
            raise ServiceError("LimitExceededException", "one training at a time is allowed")
        group, parent = self.things[solution["group"]], None
        if mode == "UPDATE":
            trained = [arn for arn in solution["versions"] if arn in self.files]
            sr.need(trained, "an UPDATE needs an ACTIVE version; train FULL first")
            sr.need(RECIPES[solution["recipeArn"]] == KINDS[0], "this recipe has no UPDATE")
            parent, imports = trained[-1], self.things[trained[-1]]["imports"]
            sr.need(imports == group["imports"], "interactions were imported since; train FULL")
        number = uuid.uuid4().hex[:8]
        more = {"status": "CREATE PENDING", "trainingMode": mode, "group": solution["group"]}
        more |= {"solutionArn": request["solutionArn"], "recipeArn": solution["recipeArn"]}
        more |= {"imports": group["imports"], "metrics": {}}
        arn = self._make("solution-version", f"{solution['name'][:50]}_{number}", **more)
        folder = self.folder / number
        solution["versions"].append(arn)
        try:
            self.trainer = rs.started(folder)
        except OSError as error:
            self.things[arn] |= {"status": "CREATE FAILED", "failureReason": str(error)}
            return {"solutionVersionArn": arn}
        events = group["bulk"], list(self.streamed[solution["group"]])
        self.things[arn]["read"] = len(events[1])
        more = {"items": group["items"], "recipe": self.recipe, "mode": mode}
        more |= {"weight": 0.3 if RECIPES[solution["recipeArn"]] == KINDS[0] else 0.0}
        more |= {"categorical": group["categorical"]}
        task = arn, folder, self.trainer, events, more, parent
        threading.Thread(target=self._train, args=task, daemon=True).start()
        return {"solutionVersionArn": arn}

    def _train(self, arn, folder, process, events, more, parent):
        with self.lock:
            self.things[arn]["status"] = "CREATE IN_PROGRESS"
        reason = {}
        try:
            read = self.things[parent]["read"] if parent else None
            read, history = sr.training_job(*events, read)
            rs.write_job(folder, read, history=history, **more)
            if parent:
                shutil.copy(self.files[parent], folder / "previous.pt")
        except Exception as error:
            reason = {"failureReason": f"the job cannot be written: {error}"}
            process.kill()
        with contextlib.suppress(OSError):  # the trainer may be dead: its end tells why
            process.stdin.write(b"go\n")
        version, outcome = rs.finished(process, folder, self.limit_s)
        outcome |= reason
        process.stdin.close()
        with self.lock:
            if version is not None:
                self.files[arn] = folder.with_suffix(".pt")
                outcome["metrics"] = version.metrics
            self.things[arn] |= outcome | {"lastUpdatedDateTime": self.clock()}
            self.trainer = None
        shutil.rmtree(folder, ignore_errors=True)

    def _get_solution_metrics(self, request):
        arn = request.get("solutionVersionArn")
        return {"solutionVersionArn": arn, "metrics": self._active(arn)["metrics"]}

    def _active(self, arn):
        version = self.thing(arn, "solution-version")
        state = version["status"]
        sr.need(state == "ACTIVE", f"the version must be ACTIVE to answer, not {state}")
        return version

    # campaigns

    def _create_campaign(self, request):
        version = self._active(request.get("solutionVersionArn"))
        config = sr.campaign_config(request, RECIPES[version["recipeArn"]] == KINDS[0], {})
        self._load(request["solutionVersionArn"])
        more = {"solutionVersionArn": request["solutionVersionArn"], "campaignConfig": config}
        arn = self._make("campaign", request.get("name"), **more)
        return {"campaignArn": arn}

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

    def _update_campaign(self, request):
        campaign = self.thing(request.get("campaignArn"), "campaign")
        arn = request.get("solutionVersionArn", campaign["solutionVersionArn"])
        explores = RECIPES[self._active(arn)["recipeArn"]] == KINDS[0]
        config = sr.campaign_config(request, explores, campaign["campaignConfig"])
        self._load(arn)
        changed = {"solutionVersionArn": arn, "campaignConfig": config}
        campaign |= changed | {"lastUpdatedDateTime": self.clock()}
        return {"campaignArn": request["campaignArn"]}

    def recommend(self, request, ranking=False):
        """The list for a user, like an item, or the order of `inputList`; it is kept
        under its recommendationId."""
        sr.checked("GetPersonalizedRanking" if ranking else "GetRecommendations", request)
        with self.lock:
            campaign = dict(self.thing(request.get("campaignArn"), "campaign"))
            trained = self.things[campaign["solutionVersionArn"]]
            past = self.things[trained["group"]]["past"].get(request.get("userId"), [])
            clicks = [item for _, item in past]
            version = self.live[campaign["solutionVersionArn"]]
        recipe, count = RECIPES[trained["recipeArn"]], request.get("numResults", 25)
        needed = "itemId" if recipe == "similar-items" else "userId"
        fine = request.get(needed) and ranking == (recipe == KINDS[2])
        sr.need(fine, f"a campaign of {recipe} needs {needed}, and a verb of its own")
        sr.need(1 <= count <= 500, f"numResults must be 1 to 500, not {count}")
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
            lists = self.answered.setdefault(trained["group"], collections.OrderedDict())
            sr.remember(lists, name, MOST_LISTS, [item for item, _ in found])
        rows = [{"itemId": item, "score": score} for item, score in found]
        return {
            "personalizedRanking" if ranking else "itemList": rows,
            "recommendationId": name,
        }


def application(service):
    """The FastAPI app of one Service."""
    app = FastAPI(openapi_url=None)
    calls = {
        "events": service.put_events,
        "recommendations": service.recommend,
        "personalize-ranking": lambda request: service.recommend(request, ranking=True),
    }

    @app.exception_handler(ServiceError)
    @app.exception_handler(ValueError)
    async def told(_, error):
        code = getattr(error, "code", "InvalidInputException")
        status = 404 if code == "ResourceNotFoundException" else 400
        body = {"__type": code, "message": str(error)}
        return JSONResponse(body, status, {"x-amzn-ErrorType": code})

    @app.exception_handler(Exception)
    async def broke(request, error):
        body = {"__type": "InternalServerException", "message": type(error).__name__}
        return JSONResponse(body, 500, {"x-amzn-ErrorType": body["__type"]})

    @app.get("/health")
    async def health():
        return {"status": "ok"}

    @app.post("/{path:path}")
    async def post(path: str, request: Request):
        sent = await _body(request)
        verb = request.headers.get("x-amz-target", "").removeprefix("AmazonPersonalize.")
        if path and path not in calls:
            raise ServiceError("UnknownOperationException", f"/{path} is not built here")
        args = (calls[path], sent) if path else (service.call, verb, sent)
        return JSONResponse(await run_in_threadpool(*args))

    return app


async def _body(request):
    """The request's JSON. Raises ValueError where it is too long, or no JSON object."""
    raw = bytearray()
    try:
        async with asyncio.timeout(MOST_SECONDS):
            async for piece in request.stream():
                raw += piece
                need(len(raw) <= MOST_BYTES, f"a request may have {MOST_BYTES} bytes at most")
    except TimeoutError as error:
        raise ValueError(f"a request must be there within {MOST_SECONDS} seconds") from error
    try:
        found = json.loads(bytes(raw))
    except RecursionError as error:
        raise ValueError("the request is nested too deep") from error
    need(isinstance(found, dict), "a request is a JSON object")
    return found


class Impatient(H11Protocol):
    """A connection that ends if a request, the first or a later one, is not there in time: who
    is silent would otherwise hold a place for ever."""

    def connection_made(self, transport):
        super().connection_made(transport)
        self.timer = self.loop.call_later(MOST_SECONDS, self._silent, None)

    def on_response_complete(self):
        done = self.cycle
        super().on_response_complete()
        self.timer.cancel()
        self.timer = self.loop.call_later(MOST_SECONDS, self._silent, done)

    def _silent(self, last):
        if self.cycle is last:  # no request has begun since
            self.transport.close()


@contextlib.contextmanager
def serving(service, seconds=10.0):
    """The address of the service; server, threads and a running trainer end with the block."""
    listener = socket.create_server(("127.0.0.1", 0))
    # asyncio sets this for sockets that name their protocol, which these do not: an answer's
    # second packet would wait 40 ms for the client's acknowledgement of the first
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    limits = {"timeout_keep_alive": 5, "timeout_graceful_shutdown": 2, "limit_concurrency": 64}
    limits["http"] = Impatient
    server = uvicorn.Server(uvicorn.Config(application(service), log_level="error", **limits))
    task = {"target": server.run, "kwargs": {"sockets": [listener]}, "daemon": True}
    thread = threading.Thread(**task)
    thread.start()
    try:
        until = time.monotonic() + seconds
        while not server.started:
            need(thread.is_alive(), "the server ended before it started")
            need(time.monotonic() < until, f"the server did not start within {seconds:g} s")
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(seconds)
        listener.close()
        service.close()
