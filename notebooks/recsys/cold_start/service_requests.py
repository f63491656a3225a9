"""What requests and files may hold: schemas, rows, events, items, settings. What cannot be
meant is refused with a ValueError, the service's InvalidInputException.

Schemas are Avro records with the reserved names of the article. What was shown comes with an
event in one of two ways: as an explicit IMPRESSION (item ids in their order on screen, joined
by |), or implicitly by the id of a list that the service itself had answered. Explicit wins.
"""

import collections
import csv
import io
import json
from dataclasses import dataclass, replace

REQUIRED = {
    "Interactions": {"USER_ID": "string", "ITEM_ID": "string", "TIMESTAMP": "long"},
    "Items": {"ITEM_ID": "string"},
}
RESERVED = {"EVENT_TYPE": "string", "EVENT_VALUE": "float", "IMPRESSION": "string"}
RESERVED |= {"CREATION_TIMESTAMP": "long"}
TYPES = {"string": str, "float": float, "double": float, "int": int, "long": int}
OLDEST, SLACK = 631_152_000, 86_400  # 1990 in Unix seconds; a day that clocks may be ahead
EVENT_FIELDS = {"eventId", "eventType", "itemId", "sentAt", "recommendationId", "impression"}
EXPLORATION = {"explorationWeight": "0.3", "explorationItemAgeCutOff": "30.0"}
ASKED = {  # what a request may hold: texts but for the types below
    "CreateDatasetGroup": "name",
    "CreateSchema": "name schema",
    "CreateDataset": "name schemaArn datasetGroupArn datasetType",
    "CreateDatasetImportJob": "jobName datasetArn dataSource roleArn importMode",
    "CreateEventTracker": "name datasetGroupArn",
    "CreateSolution": "name datasetGroupArn recipeArn",
    "CreateSolutionVersion": "solutionArn trainingMode",
    "GetSolutionMetrics": "solutionVersionArn",
    "CreateCampaign": "name solutionVersionArn campaignConfig",
    "UpdateCampaign": "campaignArn solutionVersionArn campaignConfig",
    "PutEvents": "trackingId userId sessionId eventList",
    "GetRecommendations": "campaignArn userId itemId numResults",
    "GetPersonalizedRanking": "campaignArn userId inputList",
}
TYPES_ASKED = {"dataSource": dict, "campaignConfig": dict, "numResults": int}
TYPES_ASKED |= {"eventList": list, "inputList": list}


class ServiceError(Exception):
    """An answer that is an error: its code as the API names it, and a message."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Event:
    """What a user did; `item` is None where a list was only seen. Unix seconds."""

    user: str
    item: str | None
    kind: str
    time: float
    impression: tuple = ()
    recommendation: str | None = None


def parse_schema(text, kind=None):
    """({field: (type, may be null)}, the categorical fields) of an Avro schema, for this kind
    of data set if it is given."""
    try:
        record = json.loads(text)
        need(record["type"] == "record", "its type is another")
        given = [(one["name"], one["type"], one.get("categorical")) for one in record["fields"]]
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        message = f'a schema is JSON with "type": "record" and "fields": {error}'
        raise ValueError(message) from error
    found = {}
    for name, told, marked in given:
        types = told if isinstance(told, list) else [told]
        plain = [str(one) for one in types if one != "null"]
        fine = isinstance(name, str) and name.isidentifier() and name not in found
        need(fine, f"a field's name must be a word and occur once, not {name!r}")
        allowed = [RESERVED[name]] if name in RESERVED else sorted(TYPES)
        fine = len(plain) == 1 and plain[0] in allowed
        need(fine, f"field {name} is one of {allowed}, alone or with null, not {told!r}")
        need(not marked or plain == ["string"], "only a field of texts can be categorical")
        found[name] = plain[0], "null" in types
    categorical = [name for name, _, marked in given if marked]
    if kind is not None:
        wanted = REQUIRED[one_of({"datasetType": kind}, "datasetType", tuple(REQUIRED))]
        lacks = [name for name, of in wanted.items() if found.get(name) != (of, False)]
        need(not lacks, f"fields that are needed, of their type and never null, lack: {lacks}")
        need(
            kind == "Items" or not categorical, "not built: categorical fields of interactions"
        )
    return found, categorical


def read_rows(text, schema, now):
    """A list of {field: value} of a CSV text. Raises ValueError with the line of a bad row."""
    reader = csv.DictReader(io.StringIO(text), strict=True)
    header = reader.fieldnames or []
    if sorted(header) != sorted(schema):
        missing, unknown = sorted(set(schema) - set(header)), sorted(set(header) - set(schema))
        raise ValueError(f"columns are not the schema's: missing {missing}, unknown {unknown}")
    rows = []
    try:
        for row in reader:
            if None in row or None in row.values():
                raise ValueError(f"{len(header)} values are needed")
            rows.append(typed_row(row, schema, now))
    except (ValueError, csv.Error) as error:
        raise ValueError(f"line {reader.line_num}: {error}") from error
    if not rows:
        raise ValueError("the file holds no rows; 1 or more are needed")
    return rows


def typed_row(texts, schema, now):
    """{field: value} of {field: text}; an empty text is null, where the type allows null."""
    row = {}
    for name, text in texts.items():
        kind, nullable = schema[name]
        if text == "" and not nullable:
            raise ValueError(f"{name} is empty, and its type does not allow null")
        try:
            row[name] = None if text == "" else TYPES[kind](text)
        except ValueError:
            raise ValueError(f"{name} must be a {kind}, not {text!r}") from None
        if name.endswith("TIMESTAMP") and row[name] is not None:
            check_time(row[name], now, name)
        if name in ("USER_ID", "ITEM_ID", "EVENT_TYPE") and text:
            names(name, [text])
        if name == "IMPRESSION":
            names(name, shown_in(text), 0)
    return row


def check_time(seconds, now, name="TIMESTAMP"):
    """Raises ValueError for a time that no data of today has; milliseconds are named."""
    if type(seconds) not in (int, float):
        raise ValueError(f"{name} must be a number of Unix seconds, not {seconds!r}")
    if not OLDEST <= seconds <= now + SLACK:
        milli = 1000 * OLDEST <= seconds <= 1000 * (now + SLACK)
        guess = "; it looks like milliseconds, and seconds are needed" if milli else ""
        span = f"between 1990 ({OLDEST}) and a day from now ({int(now + SLACK)})"
        raise ValueError(f"{name} {str(seconds)[:40]} must lie {span} in Unix seconds{guess}")


def events_of(rows):
    """Events of imported rows, the same row counted once, in order of time."""
    found = []
    for row in rows:
        shown = tuple(shown_in(row.get("IMPRESSION")))
        kind, time = row.get("EVENT_TYPE") or "click", float(row["TIMESTAMP"])
        found.append(Event(row["USER_ID"], row["ITEM_ID"], kind, time, shown))
    return merged(found)


def shown_in(text):
    """The item ids of an IMPRESSION, which may be null."""
    return [part for part in (text or "").split("|") if part]


def merged(*lists):
    """The events of all lists, equal ones once, in order of time."""
    unique = dict.fromkeys(event for events in lists for event in events)
    return sorted(unique, key=lambda event: event.time)


def parse_event(user, one, now):
    """The Event of one entry of PutEvents."""
    if not isinstance(one, dict) or set(one) - EVENT_FIELDS:
        raise ValueError(
            f"an event is an object with some of {sorted(EVENT_FIELDS)}, not {one!r}"
        )
    shown = names("impression", one["impression"]) if one.get("impression") else ()
    told = [one.get(name) for name in ("itemId", "eventId", "recommendationId")]
    names("eventType and ids", [one.get("eventType")])
    names("eventType and ids", list(dict.fromkeys(filter(lambda it: it is not None, told))), 0)
    check_time(one.get("sentAt"), now, "sentAt")
    return Event(user, told[0], one["eventType"], float(one["sentAt"]), tuple(shown), told[2])


def resolved(event, answered):
    """The event with the list of its recommendation as its impression, where it has none.

    `answered` is {recommendation id: item ids}; what was answered is kept with the event, so a
    list that is forgotten later does it no harm.
    """
    shown = event.impression or tuple(answered.get(event.recommendation) or ())
    return replace(event, impression=shown)


def names(what, given, least=1, most=500):
    """The list, if it holds `least` to `most` different texts of 1 to 256 printable signs."""
    fine = isinstance(given, list) and least <= len(given) <= most
    fine = fine and all(isinstance(one, str) and 0 < len(one) <= 256 for one in given)
    fine = fine and len(set(given)) == len(given) and all(one.isprintable() for one in given)
    need(
        fine,
        f"{what}: {least} to {most} different printable texts of 1 to 256 signs are needed",
    )
    return given


def one_of(request, name, allowed):
    """The field's value, the first allowed one where it is not given and may be left out."""
    given = request.get(name, allowed[0])
    need(given in allowed, f"{name} must be one of {list(allowed)}, not {given!r}")
    return given


def need(fine, message):
    """Raises ValueError unless all is fine."""
    if not fine:
        raise ValueError(message)


def remember(memory, key, most, value=True):
    """Whether the key is new; it is kept, and beyond `most` the oldest is forgotten."""
    if key in memory:
        return False
    memory[key] = value
    while len(memory) > most:
        memory.popitem(last=False)
    return True


def campaign_config(request, explores, before):
    """The exploration settings, as texts: given, else as before, else the defaults."""
    config = request.get("campaignConfig") or {}
    given = config.get("itemExplorationConfig", {})
    need(isinstance(given, dict), "itemExplorationConfig is an object")
    unknown = sorted(set(config) - {"itemExplorationConfig"} | set(given) - set(EXPLORATION))
    told = unknown or "exploration with this recipe"
    need(not unknown and (explores or not given), f"not built: {told}")
    need(all(isinstance(one, str) for one in given.values()), "exploration is told in texts")
    found = EXPLORATION | before.get("itemExplorationConfig", {}) | given
    weight, days = (float(found[name]) for name in EXPLORATION)
    if not 0 <= weight <= 1 or not 0 < days < float("inf"):
        raise ValueError(f"the weight lies in 0 to 1 and the cut-off above 0 days, not {found}")
    return {"itemExplorationConfig": found} if explores else {}


def checked(verb, request):
    """The request, its fields those of the verb and of the right types; what else is asked for
    is not built, and refused by name."""
    if verb not in ASKED:
        raise ServiceError("UnknownOperationException", f"{verb} is not built here")
    known, nothing = ASKED[verb].split(), (None, False, {}, [], "")
    asked = [
        name for name, value in request.items() if name not in known and value not in nothing
    ]
    need(not asked, f"not built in this service: {', '.join(asked)[:200]}")
    for name in set(known) & set(request):
        value, kind = request[name], TYPES_ASKED.get(name, str)
        fine = isinstance(value, kind) and type(value) is not bool
        need(fine, f"{name} must be of type {kind.__name__}, not {type(value).__name__}")
    return request


def past_of(events):
    """{user: [(time, item), …]}: the clicks of each, oldest first, equal ones once."""
    found = collections.defaultdict(list)
    for event in merged(events):
        if event.kind == "click" and event.item is not None:
            found[event.user].append((event.time, event.item))
    return {user: sorted(rows) for user, rows in found.items()}


def training_job(bulk, streamed, read=None):
    """(the events that a trainer reads, {user: clicks}): all, or for an UPDATE those streamed
    after the first `read`, with the clicks of their users."""
    if read is None:
        return merged(bulk, streamed), {}
    users = {event.user for event in streamed[read:]}
    return streamed[read:], past_of(e for e in [*bulk, *streamed] if e.user in users)
