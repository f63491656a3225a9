"""The service through Amazon's own client on a real socket, with trainers in real processes."""

import csv
import io
import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import boto3
import campaign_server
import click_world
import psutil
import pytest
import recommender_service
import service_requests
import solution_version
from botocore.config import Config
from botocore.exceptions import ClientError

START = 1_600_000_000
INTERACTIONS = [("USER_ID", "string"), ("ITEM_ID", "string"), ("EVENT_TYPE", "string")]
INTERACTIONS += [("TIMESTAMP", "long"), ("IMPRESSION", ["null", "string"])]
ITEMS = [("ITEM_ID", "string"), ("GENRES", ["null", "string"])]
ITEMS += [("CREATION_TIMESTAMP", ["null", "long"])]
USER = "arn:aws:personalize:::recipe/aws-user-personalization"


def avro(fields):
    named = [
        {"name": name, "type": kind, "categorical": name == "GENRES"} for name, kind in fields
    ]
    return json.dumps({"type": "record", "name": "x", "fields": named, "version": "1.0"})


def table(fields, rows):
    text = io.StringIO()
    csv.writer(text).writerows([[name for name, _ in fields], *rows])
    return text.getvalue()


def catalogue(world):
    rows = []
    for item in range(world.items):
        genres = "|".join(f"g{at}" for at in world.genres_IG[item].nonzero()[:, 0].tolist())
        rows.append([f"i{item}", genres, int(START + 3600 * world.created_I[item])])
    return rows


def clicks_as_rows(log):
    rows = []
    for s in range(len(log)):
        shown = [f"i{item}" for item in log.items_SK[s].tolist()]
        time_s = int(START + 3600 * log.hour_S[s])
        for place in log.clicks_SK[s].nonzero()[:, 0].tolist():
            row = [f"u{int(log.user_S[s])}", shown[place], "click", time_s, "|".join(shown)]
            rows.append(row)
    return rows


class Clients:
    """Amazon's three clients, and the shop of this module: data imported, solutions made."""

    def __init__(self, address, buckets):
        keys = {"aws_access_key_id": "x", "aws_secret_access_key": "x", "region_name": "local"}
        keys["config"] = Config(retries={"max_attempts": 1}, read_timeout=20, proxies={})
        make = boto3.session.Session().client
        self.control = make("personalize", endpoint_url=address, **keys)
        self.events = make("personalize-events", endpoint_url=address, **keys)
        self.runtime = make("personalize-runtime", endpoint_url=address, **keys)
        self.address, self.buckets = address, buckets

    def data_set(self, group, kind, fields):
        schema = self.control.create_schema(
            name=f"{kind}-{group.rsplit('/')[-1]}", schema=avro(fields)
        )
        made = self.control.create_dataset(
            name=kind,
            schemaArn=schema["schemaArn"],
            datasetGroupArn=group,
            datasetType=kind,
        )
        return made["datasetArn"]

    def load(self, name, dataset, text, mode="FULL"):
        (self.buckets / f"{name}.csv").write_text(text, encoding="utf-8")
        made = self.control.create_dataset_import_job(
            jobName=name,
            datasetArn=dataset,
            dataSource={"dataLocation": f"s3://{name}.csv"},
            roleArn="arn:aws:iam::000000000000:role/x",
            importMode=mode,
        )
        arn = made["datasetImportJobArn"]
        found = self.control.describe_dataset_import_job(datasetImportJobArn=arn)
        return found["datasetImportJob"]

    def train(self, solution, mode="FULL"):
        made = self.control.create_solution_version(solutionArn=solution, trainingMode=mode)
        return made["solutionVersionArn"]

    def wait(self, arn, seconds=300):
        until, states = time.monotonic() + seconds, []
        while time.monotonic() < until:
            made = self.control.describe_solution_version(solutionVersionArn=arn)
            states.append(made["solutionVersion"]["status"])
            if states[-1] in ("ACTIVE", "CREATE FAILED"):
                return made["solutionVersion"], states
            time.sleep(0.05)
        raise AssertionError(f"still {states[-1]}")

    def put(self, tracking, user, *events):
        self.events.put_events(
            trackingId=tracking, userId=user, sessionId="s", eventList=list(events)
        )


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Clients of a service with a small world's data, a FULL version and a campaign."""
    folder, buckets = tmp_path_factory.mktemp("trained"), tmp_path_factory.mktemp("buckets")
    recipe = {"steps": 20, "width": 8}
    service = campaign_server.Service(folder, buckets, recipe)
    world = click_world.draw(3, users=80, warm=60, cold=10, each_day=0)
    log = click_world.history(world, days=7)
    with campaign_server.serving(service) as address:
        clients = Clients(address, buckets)
        make = clients.control
        clients.service, clients.world = service, world
        clients.group = make.create_dataset_group(name="films")["datasetGroupArn"]
        clients.items = clients.data_set(clients.group, "Items", ITEMS)
        clients.seen = clients.data_set(clients.group, "Interactions", INTERACTIONS)
        clients.rows = clicks_as_rows(log)
        job = clients.load("items", clients.items, table(ITEMS, catalogue(world)))
        assert job["status"] == "ACTIVE", job
        job = clients.load("clicks", clients.seen, table(INTERACTIONS, clients.rows))
        assert job["status"] == "ACTIVE", job
        solution = {"name": "best", "datasetGroupArn": clients.group, "recipeArn": USER}
        clients.solution = make.create_solution(**solution)["solutionArn"]
        tracker = make.create_event_tracker(name="t", datasetGroupArn=clients.group)
        clients.tracking = tracker["trackingId"]
        clients.version = clients.train(clients.solution)
        made, clients.states = clients.wait(clients.version)
        assert made["status"] == "ACTIVE", made
        campaign = make.create_campaign(name="c", solutionVersionArn=clients.version)
        clients.campaign = campaign["campaignArn"]
        yield clients


def items_of(answer):
    return [row["itemId"] for row in answer["itemList"]]


def refused(call, code="InvalidInputException", says="", **request):
    with pytest.raises(ClientError) as told:
        call(**request)
    error = told.value.response["Error"]
    assert error["Code"] == code, error
    assert says in error["Message"], error


def test_a_version_goes_through_its_states_and_has_metrics(shop):
    assert set(shop.states) <= {"CREATE PENDING", "CREATE IN_PROGRESS", "ACTIVE"}
    assert len(set(shop.states)) > 1
    found = shop.control.get_solution_metrics(solutionVersionArn=shop.version)["metrics"]
    assert set(found) == {"mrr_at_25", "precision_at_10", "coverage"}


def test_a_campaign_answers_without_what_was_clicked(shop):
    answer = shop.runtime.get_recommendations(campaignArn=shop.campaign, userId="u1")
    clicked = {row[1] for row in shop.rows if row[0] == "u1"}
    assert len(items_of(answer)) == 25
    assert not clicked & set(items_of(answer))
    scores = [row["score"] for row in answer["itemList"]]
    assert scores == sorted(scores, reverse=True)


def test_an_unknown_user_gets_a_list_too(shop):
    answer = shop.runtime.get_recommendations(
        campaignArn=shop.campaign, userId="nobody", numResults=3
    )
    assert len(items_of(answer)) == 3


def test_the_weight_moves_new_items_up(shop):
    cold = {f"i{at}" for at in (shop.world.created_I >= 0).nonzero()[:, 0].tolist()}
    shares = {}
    for weight in ("0", "1"):
        config = {"itemExplorationConfig": {"explorationWeight": weight}}
        name = f"weight-{weight}"
        campaign = shop.control.create_campaign(
            name=name, solutionVersionArn=shop.version, campaignConfig=config
        )["campaignArn"]
        told = shop.control.describe_campaign(campaignArn=campaign)["campaign"]
        kept = told["campaignConfig"]["itemExplorationConfig"]
        assert kept == {"explorationWeight": weight, "explorationItemAgeCutOff": "30.0"}
        shop.control.update_campaign(campaignArn=campaign, solutionVersionArn=shop.version)
        same = shop.control.describe_campaign(campaignArn=campaign)["campaign"]
        assert same["campaignConfig"]["itemExplorationConfig"] == kept
        lists = [
            items_of(
                shop.runtime.get_recommendations(
                    campaignArn=campaign, userId=f"u{user}", numResults=10
                )
            )
            for user in range(25)
        ]
        shares[weight] = sum(len(cold & set(one)) for one in lists)
    assert shares["1"] > shares["0"]


def test_an_event_moves_the_next_list_at_once(shop):
    before = shop.runtime.get_recommendations(campaignArn=shop.campaign, userId="u2")
    event = {"eventType": "click", "sentAt": time.time(), "itemId": items_of(before)[0]}
    shop.put(shop.tracking, "u2", event | {"recommendationId": before["recommendationId"]})
    after = shop.runtime.get_recommendations(campaignArn=shop.campaign, userId="u2")
    assert items_of(before)[0] not in items_of(after)


def test_an_event_counts_once_and_out_of_order_ones_are_sorted(shop):
    now, streamed = time.time(), shop.service.things[shop.group]["streamed"]
    event = {"eventId": "one", "eventType": "click", "sentAt": now, "itemId": "i3"}
    count = len(streamed)
    shop.put(shop.tracking, "u3", event)
    shop.put(shop.tracking, "u3", event)
    shop.put(
        shop.tracking, "u3", event | {"eventId": "two", "sentAt": now - 60, "itemId": "i4"}
    )
    assert len(streamed) == count + 2
    answer = shop.runtime.get_recommendations(campaignArn=shop.campaign, userId="u3")
    assert not {"i3", "i4"} & set(items_of(answer))
    _, past = service_requests.training_job([], streamed, [0, count])
    assert [item for _, item in past["u3"]][-2:] == ["i4", "i3"]


def test_the_dead_and_the_wrong_leave_the_campaign_alone(shop):
    """A killed trainer's version fails with the reason; answers go on, before and after."""
    arn = shop.train(shop.solution)
    refused(
        shop.control.create_solution_version,
        "LimitExceededException",
        solutionArn=shop.solution,
    )
    answers = [shop.runtime.get_recommendations(campaignArn=shop.campaign, userId="u5")]
    shop.service.trainer.kill()
    made, _ = shop.wait(arn)
    assert made["status"] == "CREATE FAILED"
    assert "signal 9" in made["failureReason"]
    answers.append(shop.runtime.get_recommendations(campaignArn=shop.campaign, userId="u5"))
    assert all(len(items_of(one)) == 25 for one in answers)
    refused(
        shop.control.update_campaign,
        says="ACTIVE",
        campaignArn=shop.campaign,
        solutionVersionArn=arn,
    )


def test_an_update_takes_in_new_items_and_events_while_answers_go_on(shop):
    new = table(ITEMS, [["new", "g1|g2|never seen", int(time.time()) - 60]])
    shop.load("new-item", shop.items, new, "INCREMENTAL")
    lists = shop.runtime.get_recommendations(campaignArn=shop.campaign, userId="u6")
    liked = items_of(lists)[1]
    shown = {"sentAt": time.time(), "recommendationId": lists["recommendationId"]}
    shop.put(shop.tracking, "u6", {"eventType": "click", "itemId": liked, **shown})
    before = solution_version.load(shop.service.files[shop.version])
    arn = shop.train(shop.solution, "UPDATE")
    while shop.service.trainer is not None:
        shop.runtime.get_recommendations(campaignArn=shop.campaign, userId="u7", numResults=2)
    made, _ = shop.wait(arn)
    assert (made["status"], made["trainingMode"]) == ("ACTIVE", "UPDATE")
    after = solution_version.load(shop.service.files[arn])
    assert "new" in after.items and "new" not in before.items
    bias = [version.known.mean_IP[version.at[liked], -1] for version in (before, after)]
    assert bias[1] > bias[0]
    first = items_of(lists)[0]  # shown above it, and not clicked
    bias = [version.known.mean_IP[version.at[first], -1] for version in (before, after)]
    assert bias[1] < bias[0]
    shop.control.update_campaign(campaignArn=shop.campaign, solutionVersionArn=arn)
    told = shop.control.describe_campaign(campaignArn=shop.campaign)["campaign"]
    assert told["solutionVersionArn"] == arn


def test_an_update_reads_what_came_since_its_parent_and_no_event_twice(shop, monkeypatch):
    """Streamed or imported in addition; one event is both, another is imported twice."""
    jobs, write = [], recommender_service.write_job

    def kept(folder, events, **more):
        jobs.append([(event.user, event.item) for event in events])
        assert more["weight"] == 0.3
        write(folder, events, **more)

    monkeypatch.setattr(recommender_service, "write_job", kept)
    when = int(time.time())
    event = {"eventType": "click", "sentAt": when, "itemId": "i5"}
    shop.put(shop.tracking, "u9", event)
    made, _ = shop.wait(shop.train(shop.solution, "UPDATE"))
    assert made["status"] == "ACTIVE" and ("u9", "i5") in jobs[0]
    shop.put(shop.tracking, "u10", event | {"itemId": "i7", "eventValue": 3.5})
    shop.put(shop.tracking, "u12", event | {"itemId": "i6"})
    rows = [["u10", "i7", "click", when, ""], ["u11", "i8", "purchase", when, "i9|i8"]]
    rows.append(["u9", "i5", "click", when, ""])
    for name in ("hour-1", "hour-1-again"):
        job = shop.load(name, shop.seen, table(INTERACTIONS, rows), "INCREMENTAL")
        assert job["status"] == "ACTIVE", job
    made, _ = shop.wait(shop.train(shop.solution, "UPDATE"))
    assert made["status"] == "ACTIVE", made
    assert sorted(jobs[1]) == [("u10", "i7"), ("u11", "i8"), ("u12", "i6")]
    past = shop.service.things[shop.group]["past"]  # what was imported and what was streamed
    assert {(when, "i8")} <= {*past["u11"]} and {(when, "i6")} <= {*past["u12"]}


def test_a_training_is_handed_all_events_the_catalogue_and_what_users_did_before(
    shop, monkeypatch
):
    """What is written for a trainer; its writing fails at once, so nothing is trained."""
    jobs, group = [], shop.service.things[shop.group]

    def kept(folder, events, **more):
        jobs.append(({(event.user, event.item) for event in events}, more))
        raise OSError("seen enough")

    monkeypatch.setattr(recommender_service, "write_job", kept)
    event = {"eventType": "click", "sentAt": START, "itemId": "i9"}
    shop.put(shop.tracking, "u1", event)
    shop.put(shop.tracking, "u300", event)
    for mode in ("FULL", "UPDATE"):
        made, _ = shop.wait(shop.train(shop.solution, mode))
        assert "seen enough" in made["failureReason"]
    (every, full), (latest, update) = jobs
    imported = {(user, item) for user, item, *_ in shop.rows}
    assert imported | {("u1", "i9"), ("u300", "i9")} <= every
    assert {("u1", "i9"), ("u300", "i9")} <= latest and not imported <= latest
    for mode, job in (("FULL", full), ("UPDATE", update)):
        assert (job["mode"], job["items"]) == (mode, group["items"])
        assert job["categorical"] == ["GENRES"]
    assert full["history"] == {} and update["history"]["u300"] == [(START, "i9")]
    before = {item for user, item in imported if user == "u1"}
    assert before and before | {"i9"} <= {item for _, item in update["history"]["u1"]}


def test_every_verb_of_the_api_is_answered_or_refused_by_name(shop):
    """All that Amazon's client can ask: with nothing, and with what the API says is needed."""
    codes, arn = {"InvalidInputException", "ResourceNotFoundException"}, shop.group + "x"
    for client in (shop.control, shop.events, shop.runtime):
        model = client.meta.service_model
        for verb in model.operation_names:
            operation = model.operation_model(verb)
            head = {"X-Amz-Target": f"AmazonPersonalize.{verb}"}
            shape = operation.input_shape
            needed = {
                name: value_of(shape.members[name], arn) for name in shape.required_members
            }
            for body in ({}, needed):
                if (
                    verb == "CreateDatasetGroup"
                    and body
                    or (verb.startswith("List") and not needed)
                ):
                    continue  # these are fine
                uri = operation.http["requestUri"]
                status, said = post(shop.address, json.dumps(body).encode(), uri, **head)
                code = json.loads(said)["__type"]
                assert status in (400, 404) and "built" in said or code in codes, (verb, said)


def value_of(shape, arn):
    """A plausible value of a field."""
    if shape.type_name == "structure":
        return {name: value_of(shape.members[name], arn) for name in shape.required_members}
    plain = {"list": [], "map": {}, "integer": 1, "boolean": False, "timestamp": START}
    return plain.get(shape.type_name, arn if "rn" in shape.name else "x")


def test_what_exists_is_described_and_listed_as_the_api_s_model_says(shop):
    control = shop.control
    found = control.describe_solution(solutionArn=shop.solution)["solution"]
    assert (found["name"], found["recipeArn"], found["status"]) == ("best", USER, "ACTIVE")
    found = control.describe_dataset(datasetArn=shop.seen)["dataset"]
    assert found["datasetGroupArn"] == shop.group and "fields" not in found
    found = control.describe_schema(schemaArn=found["schemaArn"])["schema"]
    assert "USER_ID" in found["schema"]
    found = control.describe_recipe(recipeArn=USER)["recipe"]
    assert found["name"] == "aws-user-personalization"
    trackers = control.list_event_trackers(datasetGroupArn=shop.group)["eventTrackers"]
    assert [one["name"] for one in trackers] == ["t"]
    arn = trackers[0]["eventTrackerArn"]
    found = control.describe_event_tracker(eventTrackerArn=arn)["eventTracker"]
    assert found["trackingId"] == shop.tracking
    group = control.describe_dataset_group(datasetGroupArn=shop.group)["datasetGroup"]
    assert group["name"] == "films" and group["creationDateTime"].year > 2020
    versions = control.list_solution_versions(solutionArn=shop.solution)["solutionVersions"]
    assert shop.version in [one["solutionVersionArn"] for one in versions]
    campaigns = control.list_campaigns(solutionArn=shop.solution)["campaigns"]
    assert shop.campaign in [one["campaignArn"] for one in campaigns]
    assert len(control.list_recipes()["recipes"]) == 3
    assert shop.group in [
        one["datasetGroupArn"] for one in control.list_dataset_groups()["datasetGroups"]
    ]
    missing = "ResourceNotFoundException"
    refused(control.describe_solution, missing, solutionArn=shop.campaign)
    refused(control.list_solutions, says="maxResults", maxResults=3)


def test_a_campaign_explores_at_the_article_s_weight_where_none_is_given(shop):
    made = shop.control.create_campaign(name="plain", solutionVersionArn=shop.version)
    told = shop.control.describe_campaign(campaignArn=made["campaignArn"])["campaign"]
    found = told["campaignConfig"]["itemExplorationConfig"]
    assert (float(found["explorationWeight"]), float(found["explorationItemAgeCutOff"])) == (
        0.3,
        30,
    )


def test_a_campaign_answers_from_its_version_by_its_settings_and_the_order_of_clicks(
    shop, monkeypatch
):
    asked, answer, service = [], solution_version.answer, shop.service

    def spied(version, taken, *told):
        asked.append((version.latest, taken, *told[:2]))
        return answer(version, taken, *told)

    monkeypatch.setattr(solution_version, "answer", spied)
    first = solution_version.load(service.files[shop.version])
    fields = {n: service.things[shop.version][n] for n in ("recipeArn", "datasetGroupArn")}
    made = service._make("solutionVersion", "later", solutionArn="none", **fields)
    later = made["solutionVersionArn"]
    service.files[later] = service.folder / "later.pt"
    second = solution_version.replace(first, latest=first.latest + 60)
    solution_version.save(second, service.files[later])
    config = {"explorationWeight": "0.5", "explorationItemAgeCutOff": "7"}
    own = shop.control.create_campaign(
        name="own",
        solutionVersionArn=shop.version,
        campaignConfig={"itemExplorationConfig": config},
    )["campaignArn"]
    event = {"eventType": "click", "sentAt": START, "itemId": "i3"}
    shop.put(shop.tracking, "u20-late", event, event | {"sentAt": START - 60, "itemId": "i4"})
    for version in (shop.version, later):
        shop.control.update_campaign(campaignArn=own, solutionVersionArn=version)
        shop.runtime.get_recommendations(campaignArn=own, userId="u20-late")
    told = ["i4", "i3"], 0.5, 7.0
    assert asked == [(first.latest, *told), (second.latest, *told)]


def test_similar_items_and_ranking_have_recipes_of_their_own(shop):
    made = {}
    for name in ("similar-items", "personalized-ranking"):
        recipe = f"arn:aws:personalize:::recipe/aws-{name}"
        solution = {"name": name, "datasetGroupArn": shop.group, "recipeArn": recipe}
        arn = shop.control.create_solution(**solution)["solutionArn"]
        fields = {"solutionArn": arn, "recipeArn": recipe, "datasetGroupArn": shop.group}
        version = shop.service._make("solutionVersion", name, **fields)  # spares a training
        version = version["solutionVersionArn"]
        shop.service.files[version] = shop.service.files[shop.version]
        campaign = shop.control.create_campaign(name=name, solutionVersionArn=version)
        made[name] = campaign["campaignArn"]
    near = shop.runtime.get_recommendations(
        campaignArn=made["similar-items"], itemId="i1", numResults=5
    )
    assert len(items_of(near)) == 5 and "i1" not in items_of(near)
    ranked = shop.runtime.get_personalized_ranking(
        campaignArn=made["personalized-ranking"], userId="u1", inputList=["i1", "?", "i2"]
    )
    assert sorted(row["itemId"] for row in ranked["personalizedRanking"]) == ["?", "i1", "i2"]
    assert ranked["personalizedRanking"][-1]["itemId"] == "?"
    refused(
        shop.runtime.get_recommendations,
        says="userId",
        campaignArn=made["personalized-ranking"],
        userId="u1",
    )
    refused(
        shop.runtime.get_recommendations,
        says="not in the solution version",
        campaignArn=made["similar-items"],
        itemId="?",
    )
    update = {"solutionArn": arn, "trainingMode": "UPDATE"}
    refused(shop.control.create_solution_version, says="user-personalization", **update)
    weight = {"campaignConfig": {"itemExplorationConfig": {"explorationWeight": "1"}}}
    make = {"name": "explores", "solutionVersionArn": version} | weight
    refused(shop.control.create_campaign, says="not built for this recipe", **make)


def test_a_full_import_replaces_and_an_incremental_one_adds(shop):
    group = shop.control.create_dataset_group(name="imports")["datasetGroupArn"]
    dataset, bulk = shop.data_set(group, "Interactions", INTERACTIONS), {}
    for name, mode in (("one", "FULL"), ("two", "INCREMENTAL"), ("three", "FULL")):
        row = ["u1", name, "click", START, ""]
        shop.load(f"import-{name}", dataset, table(INTERACTIONS, [row, row]), mode)
        bulk[name] = [event.item for event in shop.service.things[group]["imported"]]
    assert bulk == {"one": ["one"], "two": ["one", "two"], "three": ["three"]}


def test_a_full_import_of_items_replaces_them_and_an_incremental_one_adds(shop):
    group = shop.control.create_dataset_group(name="catalogues")["datasetGroupArn"]
    dataset, held = shop.data_set(group, "Items", ITEMS), []
    for name, mode in (("one", "FULL"), ("two", "INCREMENTAL"), ("three", "FULL")):
        shop.load(f"items-{name}", dataset, table(ITEMS, [[name, "g1", START]]), mode)
        held.append({*shop.service.things[group]["items"]})
    assert held == [{"one"}, {"one", "two"}, {"three"}]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([["u1", "i1", "click", START * 1000, ""]], "milliseconds"),
        ([["u1", "i1", "click", 90_000_000_000, ""]], "must lie between"),
        ([["u1", "i1", "click", "soon", ""]], "line 2: TIMESTAMP must be a long"),
        ([["u1", "", "click", START, ""]], "ITEM_ID is empty"),
        ([["u1", "i1", "click"]], "line 2: 5 values are needed"),
        ([["u1", "i" * 257, "click", START, ""]], "line 2: ITEM_ID"),
        ([["u1", "i1", "click", START, "a|b|a"]], "line 2: IMPRESSION"),
        ([], "no rows"),
    ],
)
def test_a_bad_file_fails_whole_with_its_line(shop, rows, says, request):
    before = len(shop.service.things[shop.group]["imported"])
    name = f"bad-{abs(hash(request.node.name))}"
    job = shop.load(name, shop.seen, table(INTERACTIONS, rows))
    assert job["status"] == "CREATE FAILED"
    assert says in job["failureReason"]
    assert len(shop.service.things[shop.group]["imported"]) == before


def test_a_file_of_another_schema_fails(shop):
    job = shop.load("other", shop.seen, table(ITEMS, [["i1", "", START]]))
    assert "missing" in job["failureReason"] and "GENRES" in job["failureReason"]


def test_too_few_interactions_fail_the_version(shop):
    group = shop.control.create_dataset_group(name="few")["datasetGroupArn"]
    dataset = shop.data_set(group, "Interactions", INTERACTIONS)
    shop.load("few", dataset, table(INTERACTIONS, shop.rows[:999]))
    solution = {"name": "few", "datasetGroupArn": group, "recipeArn": USER}
    arn = shop.control.create_solution(**solution)["solutionArn"]
    update = {"solutionArn": arn, "trainingMode": "UPDATE"}
    refused(shop.control.create_solution_version, says="an ACTIVE version", **update)
    made, _ = shop.wait(shop.train(arn))
    assert made["status"] == "CREATE FAILED"
    assert "1000 are needed" in made["failureReason"]


def test_what_is_not_built_is_refused_by_name(shop):
    ask = shop.runtime.get_recommendations
    base = {"campaignArn": shop.campaign, "userId": "u1"}
    for more in (
        {"filterArn": "arn:aws:personalize:a:0:filter/x"},
        {"context": {"a": "b"}},
        {"promotions": [{"name": "x", "percentPromotedItems": 10}]},
        {"metadataColumns": {"ITEMS": ["GENRES"]}},
    ):
        refused(ask, says=next(iter(more)), **base, **more)
    solution = {"name": "x", "datasetGroupArn": shop.group, "recipeArn": USER}
    refused(shop.control.create_solution, says="performHPO", performHPO=True, **solution)
    gone = shop.control.delete_solution
    refused(gone, "UnknownOperationException", solutionArn=shop.solution)
    refused(shop.control.create_solution, says="eventType", eventType="buy", **solution)


def test_requests_that_cannot_be_meant_are_refused(shop):
    ask, control = shop.runtime.get_recommendations, shop.control
    lost = "arn:aws:personalize:local:000000000000:campaign/lost"
    missing = "ResourceNotFoundException"
    refused(ask, missing, campaignArn=lost, userId="u1")
    refused(ask, says="numResults", campaignArn=shop.campaign, userId="u1", numResults=501)
    refused(ask, says="userId", campaignArn=shop.campaign)
    exists = "ResourceAlreadyExistsException"
    refused(control.create_dataset_group, exists, name="films")
    refused(control.create_dataset_group, says="name", name="../etc")
    for config in (
        {"explorationWeight": "1.1"},
        {"explorationItemAgeCutOff": "0"},
        {"explorationWeight": "nan"},
        {"explorationItemAgeCutOff": "inf"},
        {"exploration": "1"},
    ):
        refused(
            control.create_campaign,
            name="bad",
            solutionVersionArn=shop.version,
            campaignConfig={"itemExplorationConfig": config},
        )
    refused(
        control.create_solution_version, solutionArn=shop.solution, trainingMode="AUTOTRAIN"
    )
    row = table(INTERACTIONS, [["u1", "i1", "click", START, ""]])
    (shop.buckets.parent / "secret.csv").write_text(row, encoding="utf-8")
    for place, mode in (("../secret.csv", "FULL"), ("clicks.csv", "SOMETIMES")):
        job = {"jobName": "out", "datasetArn": shop.seen, "importMode": mode}
        job |= {
            "roleArn": "arn:aws:iam::000000000000:role/x",
            "dataSource": {"dataLocation": f"s3://{place}"},
        }
        head = {"X-Amz-Target": "AmazonPersonalize.CreateDatasetImportJob"}
        status, told = post(shop.address, json.dumps(job).encode(), **head)
        what = "dataLocation is no file" if mode == "FULL" else "SOMETIMES"
        assert (status, what in told) == (400, True), told


@pytest.mark.parametrize(
    "event",
    [
        {"sentAt": 90_000_000_000},
        {"sentAt": 10},
        {"impression": ["i1", "i1"]},
        {"properties": "{}"},
        {"itemId": "i" * 257},
        {"itemId": "\ud800"},
        {"impression": ["i1", "i\n2"]},
    ],
)
def test_events_that_cannot_be_meant_are_refused_whole(shop, event):
    count = len(shop.service.things[shop.group]["streamed"])
    good = {"eventType": "click", "sentAt": START, "itemId": "i1"}
    call = shop.events.put_events
    fields = {"trackingId": shop.tracking, "userId": "u1", "sessionId": "s"}
    with pytest.raises(Exception, match="InvalidInput|Parameter"):
        call(eventList=[good, good | event], **fields)
    assert len(shop.service.things[shop.group]["streamed"]) == count


def test_no_more_events_are_held_than_the_bound(shop, monkeypatch):
    streamed = shop.service.things[shop.group]["streamed"]
    count, one = len(streamed), {"eventType": "seen", "sentAt": START, "itemId": "i1"}
    monkeypatch.setattr(recommender_service, "MOST_EVENTS", count + 1)
    with pytest.raises(ClientError, match="events are held"):
        shop.put(shop.tracking, "u13", one, one | {"itemId": "i2"})
    assert len(streamed) == count
    shop.put(shop.tracking, "u13", one)
    assert len(streamed) == count + 1


def test_lists_are_remembered_up_to_a_bound(shop, monkeypatch):
    monkeypatch.setattr(campaign_server, "MOST_LISTS", 20)
    first = shop.runtime.get_recommendations(campaignArn=shop.campaign, userId="u8")
    for _ in range(21):
        shop.runtime.get_recommendations(campaignArn=shop.campaign, userId="u8", numResults=1)
    lists = shop.service.answered[shop.group]
    assert len(lists) == 20 and first["recommendationId"] not in lists


def test_a_list_of_one_group_says_nothing_of_another_groups_event(shop):
    answer = shop.runtime.get_recommendations(campaignArn=shop.campaign, userId="u8")
    group = shop.control.create_dataset_group(name="third")["datasetGroupArn"]
    other = shop.control.create_event_tracker(name="t3", datasetGroupArn=group)["trackingId"]
    event = {"eventType": "seen", "sentAt": time.time()}
    event["recommendationId"] = answer["recommendationId"]
    for tracking in (shop.tracking, other):
        shop.put(tracking, "u8", event)
    streams = [shop.service.things[one]["streamed"] for one in (shop.group, group)]
    shown = [stream[-1].impression for stream in streams]
    assert shown == [tuple(items_of(answer)), ()]


def test_who_has_no_user_id_is_known_by_the_session(shop):
    event = {"eventType": "click", "sentAt": time.time(), "itemId": "i3"}
    fields = {"trackingId": shop.tracking, "eventList": [event]}
    shop.events.put_events(sessionId="visit-1", **fields)
    answer = shop.runtime.get_recommendations(campaignArn=shop.campaign, userId="visit-1")
    assert "i3" not in items_of(answer)
    nobody = json.dumps(fields).encode()
    status, told = post(shop.address, nobody, "/events")
    assert status == 400 and "sessionId" in told


def test_a_version_that_cannot_be_read_takes_no_campaign_with_it(shop):
    """UpdateCampaign is refused; this campaign and all others are as they were."""
    fields = {n: shop.service.things[shop.version][n] for n in ("recipeArn", "datasetGroupArn")}
    broken = shop.service._make("solutionVersion", "broken", solutionArn="none", **fields)
    broken = broken["solutionVersionArn"]
    shop.service.files[broken] = shop.service.folder / "broken.pt"
    shop.service.files[broken].write_bytes(b"junk")
    before = shop.control.describe_campaign(campaignArn=shop.campaign)["campaign"]
    change = {"campaignArn": shop.campaign, "solutionVersionArn": broken}
    refused(shop.control.update_campaign, says="cannot be read", **change)
    make = {"name": "on-junk", "solutionVersionArn": broken}
    refused(shop.control.create_campaign, says="cannot be read", **make)
    after = shop.control.describe_campaign(campaignArn=shop.campaign)["campaign"]
    assert after["solutionVersionArn"] == before["solutionVersionArn"]
    answer = shop.runtime.get_recommendations(campaignArn=shop.campaign, userId="u1")
    assert len(items_of(answer)) == 25
    shop.control.create_campaign(name="on-junk", solutionVersionArn=shop.version)


def test_an_update_of_a_parent_that_cannot_be_read_asks_for_full(shop):
    things, files = shop.service.things, shop.service.files
    latest = [arn for arn in files if things[arn]["solutionArn"] == shop.solution][-1]
    good = files[latest]
    files[latest] = good.with_name("junk.pt")
    shop.service.files[latest].write_bytes(b"junk")
    made, _ = shop.wait(shop.train(shop.solution, "UPDATE"))
    shop.service.files[latest] = good
    assert made["status"] == "CREATE FAILED" and "train FULL" in made["failureReason"]


def test_a_version_that_cannot_be_kept_fails_and_the_next_one_is_trained(shop, monkeypatch):
    def full(*_):
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(recommender_service.shutil, "move", full)
        made, _ = shop.wait(shop.train(shop.solution, "UPDATE"))
    assert made["status"] == "CREATE FAILED" and "no space" in made["failureReason"]
    made, _ = shop.wait(shop.train(shop.solution, "UPDATE"))
    assert made["status"] == "ACTIVE", made


def test_a_slow_second_request_loses_its_place(tmp_path, monkeypatch):
    monkeypatch.setattr(campaign_server, "MOST_SECONDS", 3.0)
    service = campaign_server.Service(tmp_path, tmp_path)
    with campaign_server.serving(service) as address:
        host, port = address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=20) as one:
            one.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
            got = b""
            while b"not built here" not in got:
                got += one.recv(1000) or pytest.fail("closed too early")
            one.sendall(b"POST /events HT")
            assert one.recv(1000) == b""


def post(address, body, path="/", **headers):
    request = urllib.request.Request(address + path, body, headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"\xff", b"[" * 100_000, b'{"a":' * 50_000, b"{}" + b" " * 2_000_000]
)
def test_garbage_is_answered_and_the_service_lives(shop, body):
    status, told = post(shop.address, body)
    assert status == 400 and "InvalidInputException" in told
    answer = shop.runtime.get_recommendations(campaignArn=shop.campaign, userId="u1")
    assert items_of(answer)


def test_an_empty_token_of_a_list_is_none_and_chunks_are_refused(shop):
    head = {"X-Amz-Target": "AmazonPersonalize.ListDatasetGroups"}
    status, told = post(shop.address, b'{"nextToken": ""}', **head)
    assert (status, told) == post(shop.address, b"{}", **head)
    assert status == 200 and "films" in told
    assert post(shop.address, b'{"nextToken": "x"}', **head)[0] == 400
    host, port = shop.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as line:
        line.sendall(b"POST /events HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        line.sendall(b"2\r\n{}\r\n0\r\n\r\n")
        told = b"".join(iter(lambda: line.recv(4096), b""))  # until the server closes
    assert b" 400 " in told.splitlines()[0] and b"in one piece" in told


@pytest.mark.parametrize(
    ("path", "verb", "request_"),
    [
        ("/events", "", {"userId": ["a"]}),
        ("/events", "", {"userId": "a" * 300}),
        ("/events", "", {"trackingId": ["a"]}),
        ("/events", "", {"eventList": [{"eventType": "x", "sentAt": 10**400}]}),
        ("/", "CreateCampaign", {"name": "n", "campaignConfig": [1]}),
        ("/", "CreateDatasetImportJob", {"jobName": "n", "dataSource": "x"}),
        ("/", "CreateDatasetImportJob", {"dataSource": {"dataLocation": "s3://" + "x" * 5000}}),
        (
            "/",
            "CreateSchema",
            {"name": "n", "schema": '{"type": "record", "fields": [{"name": []}]}'},
        ),
        ("/", "CreateSolution", {"name": "n", "eventType": "buy"}),
        ("/", "CreateDatasetGroup", {"name": "n", "frobnicate": "x"}),
        ("/", "CreateCampaign", {"name": "n", "campaignConfig": {"itemExplorationConfig": []}}),
        ("/recommendations", "", {"numResult": "3"}),
        ("/recommendations", "", {"numResults": True}),
        ("/", "CreateSolution", {"name": "n", "tags": [{"tagKey": "a"}]}),
    ],
)
def test_fields_of_wrong_types_are_refused_and_harm_nothing(shop, path, verb, request_):
    """What is refused leaves no half of itself behind: the next training still works."""
    count = len(shop.service.things[shop.group]["streamed"])
    event = {
        "eventType": "click",
        "sentAt": START,
        "itemId": "i1",
        "eventId": str(request_)[:200],
    }
    full = {"trackingId": shop.tracking, "userId": "u1", "sessionId": "s", "eventList": [event]}
    full |= {"datasetArn": shop.seen, "datasetGroupArn": shop.group, "recipeArn": USER}
    full |= {"solutionVersionArn": shop.version}
    full |= {"campaignArn": shop.campaign}
    verbs = {"/events": "PutEvents", "/recommendations": "GetRecommendations"}
    allowed = service_requests.operation(verbs.get(path, verb)).input_shape.members
    base = {name: full[name] for name in allowed if name in full}
    body = json.dumps(base | request_).encode()
    headers = {"X-Amz-Target": f"AmazonPersonalize.{verb}"} if verb else {}
    status, told = post(shop.address, body, path, **headers)
    assert status == 400 and "InvalidInputException" in told
    assert len(shop.service.things[shop.group]["streamed"]) == count


def test_the_same_event_of_two_groups_counts_in_both(shop):
    group = shop.control.create_dataset_group(name="second")["datasetGroupArn"]
    other = shop.control.create_event_tracker(name="t2", datasetGroupArn=group)["trackingId"]
    event = {"eventId": "both", "eventType": "click", "sentAt": START, "itemId": "i1"}
    for tracking in (shop.tracking, other, other):
        shop.put(tracking, "u9", event)
    assert len(shop.service.things[group]["streamed"]) == 1


def test_a_full_import_since_the_parent_asks_for_a_full_training(shop):
    group = shop.service.things[shop.group]
    group["imports"] += 1
    try:
        refused(
            shop.control.create_solution_version,
            says="FULL import since; train FULL",
            solutionArn=shop.solution,
            trainingMode="UPDATE",
        )
    finally:
        group["imports"] -= 1


def test_a_first_import_must_be_full(shop):
    group = shop.control.create_dataset_group(name="first")["datasetGroupArn"]
    dataset = shop.data_set(group, "Interactions", INTERACTIONS)
    row = table(INTERACTIONS, [["u1", "i1", "click", START, ""]])
    with pytest.raises(ClientError, match="must be FULL"):
        shop.load("too-early", dataset, row, "INCREMENTAL")


def test_a_trainer_ends_with_its_parent(tmp_path):
    """The parent is killed without a chance to clean up; its trainer is gone soon after."""
    (tmp_path / "job.json").write_text("{}", encoding="utf-8")
    code = (
        "import subprocess, sys, time\n"
        f"p = subprocess.Popen([sys.executable, '-m', 'solution_version', {str(tmp_path)!r}],"
        " stdin=subprocess.PIPE)\n"
        "print(p.pid, flush=True)\ntime.sleep(600)\n"
    )
    here = str(Path(__file__).parent)
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=here
    ) as one:
        child = psutil.Process(int(one.stdout.readline()))
        one.kill()
    gone, alive = psutil.wait_procs([child], timeout=60)
    assert not alive


def test_a_training_that_takes_too_long_is_ended(shop, monkeypatch):
    monkeypatch.setattr(shop.service, "limit_s", 0.05)
    made, _ = shop.wait(shop.train(shop.solution))
    assert made["status"] == "CREATE FAILED"


def test_a_closed_service_trains_no_more_and_its_trainer_is_gone(shop, tmp_path):
    service = campaign_server.Service(tmp_path, tmp_path)
    service.things = shop.service.things
    service.call("CreateSolutionVersion", {"solutionArn": shop.solution})
    process = service.trainer
    service.close()
    assert process.wait(10) != 0
    with pytest.raises(campaign_server.ServiceError):
        service.call("CreateSolutionVersion", {"solutionArn": shop.solution})


def test_categorical_fields_are_those_of_items_and_of_texts(shop):
    group = shop.service.things[shop.group]
    assert group["categorical"] == ["GENRES"]
    make = shop.control.create_schema
    fields = [{"name": n, "type": t} for n, t in INTERACTIONS]
    bad = [*fields, {"name": "N", "type": "long", "categorical": True}]
    record = {"type": "record", "name": "x", "version": "1.0"}
    refused(make, says="texts", name="bad", schema=json.dumps(record | {"fields": bad}))
    context = [*fields, {"name": "TV", "type": "string", "categorical": True}]
    schema = make(name="tv", schema=json.dumps(record | {"fields": context}))["schemaArn"]
    refused(
        shop.control.create_dataset,
        says="categorical fields of interactions",
        name="tv",
        schemaArn=schema,
        datasetGroupArn=shop.group,
        datasetType="Interactions",
    )


def test_a_trainer_that_cannot_start_fails_its_version_alone(shop, monkeypatch):
    def broken(folder):
        raise OSError("no more processes")

    monkeypatch.setattr(recommender_service, "started", broken)
    made, _ = shop.wait(shop.train(shop.solution))
    assert made["status"] == "CREATE FAILED" and "no more" in made["failureReason"]
    assert shop.service.trainer is None


def test_a_job_that_cannot_be_written_fails_with_its_reason(shop, monkeypatch):
    def broken(folder, *args, **more):
        raise OSError("the disk is full")

    monkeypatch.setattr(recommender_service, "write_job", broken)
    made, _ = shop.wait(shop.train(shop.solution))
    assert made["status"] == "CREATE FAILED" and "disk is full" in made["failureReason"]


def test_silent_connections_do_not_hold_their_places(tmp_path, monkeypatch):
    monkeypatch.setattr(campaign_server, "MOST_SECONDS", 0.5)
    service = campaign_server.Service(tmp_path, tmp_path)
    with campaign_server.serving(service) as address:
        host, port = address.removeprefix("http://").split(":")
        silent = [socket.create_connection((host, int(port))) for _ in range(70)]
        until = time.monotonic() + 30
        while post(address, b"{}", "/events")[0] == 503:
            assert time.monotonic() < until, "the silent ones still hold all places"
            time.sleep(0.1)
        silent[0].settimeout(10)
        assert silent[0].recv(1) == b""
        slow = socket.create_connection((host, int(port)))
        slow.sendall(b"POST /events HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
        slow.settimeout(10)
        assert b"400" in slow.recv(100)
        for one in (*silent, slow):
            one.close()
