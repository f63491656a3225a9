"""What requests and files may hold: verbs, schemas, rows, events. What cannot be meant is
refused with a ValueError, the service's InvalidInputException.

Which fields a verb has, of which types and sizes, is read from the API's own model, as it comes
with botocore. Schemas are Avro records with the reserved names of the article. What was shown
comes with an event in one of two ways: as an explicit IMPRESSION (item ids in their order on
screen, joined by |), or implicitly by the id of a list that the service itself had answered.
Explicit wins.
"""

import csv
import functools
import io
import json
import re
from dataclasses import dataclass, replace

REQUIRED = {
    "Interactions": {"USER_ID": "string", "ITEM_ID": "string", "TIMESTAMP": "long"},
    "Items": {"ITEM_ID": "string"},
}
RESERVED = {"EVENT_TYPE": "string", "EVENT_VALUE": "float", "IMPRESSION": "string"}
RESERVED |= {"CREATION_TIMESTAMP": "long"}
TYPES = {"string": str, "float": float, "double": float, "int": int, "long": int}
OLDEST, SLACK = 631_152_000, 86_400  # 1990 in Unix seconds; a day that clocks may be ahead
ONLY_SEEN = {"seen", "impression"}  # kinds of events that tell what was shown, and no more
EXPLORATION = {"explorationWeight": "0.3", "explorationItemAgeCutOff": "30.0"}
# fields of requests, at any depth, that are obeyed (roleArn, sessionId, eventValue: and unused)
_OBEYED = """name jobName schema schemaArn datasetGroupArn datasetType datasetArn dataSource
dataLocation roleArn importMode datasetImportJobArn recipeArn solutionArn trainingMode eventId
solutionVersionArn campaignArn campaignConfig itemExplorationConfig eventTrackerArn trackingId
userId sessionId eventList eventType eventValue itemId sentAt recommendationId impression
numResults inputList"""
OBEYED = set(_OBEYED.split())


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

    @property
    def engaged(self):
        """Whether the user took the item: clicked, bought, played, … whatever it is called."""
        return self.item is not None and self.kind.casefold() not in ONLY_SEEN


@functools.cache
def _api():
    """The models of the API's three parts, and what holds a request against one."""
    import botocore.session  # not before it is needed: a trainer is a process of its own
    from botocore.validate import ParamValidator

    session, names = botocore.session.get_session(), ("", "-events", "-runtime")
    return [session.get_service_model(f"personalize{name}") for name in names], ParamValidator()


def operation(verb):
    """The API's own model of a verb (botocore's), or None."""
    models = (model for model in _api()[0] if verb in model.operation_names)
    return next((model.operation_model(verb) for model in models), None)


def checked(verb, request):
    """The request, if the API's model allows it and this service obeys all of its fields."""
    shape = operation(verb).input_shape
    for name, value, of, built in parts_of(request, shape):
        need(built or value in (False, {}, [], ""), f"not built in this service: {name}")
        fine = type(value) is not bool or of.type_name == "boolean"
        if isinstance(value, str):
            fine = re.fullmatch(of.metadata.get("pattern", ".*"), value, re.DOTALL)
            fine = fine and (value.isprintable() or name == "schema")
            fine = fine and (not getattr(of, "enum", ()) or value in of.enum)
        if isinstance(value, str | list | dict):
            fine = fine and len(value) <= of.metadata.get("max", len(value))
        need(fine, f"{name}: {str(value)[:80]!r} is not what the API's model allows")
    try:
        found = _api()[1].validate(request, shape)
    except (OverflowError, RuntimeError) as error:  # botocore's, of a time in the year 10^400
        raise ValueError(f"a time cannot be read: {error}") from error
    need(not found.has_errors(), found.generate_report()[:500])
    return request


def parts_of(value, shape, name="request", built=True):
    """(name, value, shape, whether it is obeyed) of a request and of all known parts of it."""
    yield name, value, shape, built
    if shape.type_name == "structure" and isinstance(value, dict):
        for key in set(value) & set(shape.members):
            yield from parts_of(value[key], shape.members[key], key, built and key in OBEYED)
    elif shape.type_name == "list" and isinstance(value, list):
        for one in value:
            yield from parts_of(one, shape.member, name, built)


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
    for name, type_, marked in given:
        types = type_ if isinstance(type_, list) else [type_]
        plain = [str(one) for one in types if one != "null"]
        fine = isinstance(name, str) and name.isidentifier() and name not in found
        need(fine, f"a field's name must be a word and occur once, not {name!r}")
        allowed = [RESERVED[name]] if name in RESERVED else sorted(TYPES)
        fine = len(plain) == 1 and plain[0] in allowed
        need(fine, f"field {name} is one of {allowed}, alone or with null, not {type_!r}")
        need(not marked or plain == ["string"], "only a field of texts can be categorical")
        found[name] = plain[0], "null" in types
    categorical = [name for name, _, marked in given if marked]
    if kind is not None:
        need(kind in REQUIRED, f"datasetType must be one of {list(REQUIRED)}, not {kind!r}")
        lacks = [name for name, of in REQUIRED[kind].items() if found.get(name) != (of, False)]
        need(not lacks, f"fields that are needed, of their type and never null, lack: {lacks}")
        fine = kind == "Items" or not categorical
        need(fine, "not built: categorical fields of interactions")
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
            need(
                None not in row and None not in row.values(), f"{len(header)} values are needed"
            )
            rows.append(typed_row(row, schema, now))
    except (ValueError, csv.Error) as error:
        raise ValueError(f"line {reader.line_num}: {error}") from error
    need(rows, "the file holds no rows; 1 or more are needed")
    return rows


def typed_row(texts, schema, now):
    """{field: value} of {field: text}; an empty text is null, where the type allows null."""
    row = {}
    for name, text in texts.items():
        kind, nullable = schema[name]
        need(text or nullable, f"{name} is empty, and its type does not allow null")
        try:
            row[name] = TYPES[kind](text) if text else None
        except ValueError:
            raise ValueError(f"{name} must be a {kind}, not {text!r}") from None
        if name.endswith("TIMESTAMP") and text:
            check_time(row[name], now, name)
        if name in ("USER_ID", "ITEM_ID", "EVENT_TYPE", "IMPRESSION"):
            ids = text.split("|") if name == "IMPRESSION" else [text]
            fine = len(set(ids)) == len(ids) and max(map(len, ids)) <= 256
            need(fine and text.isprintable(), f"{name}: different printable ids of 256 signs")
    return row


def check_time(seconds, now, name="TIMESTAMP"):
    """Raises ValueError for a time that no data of today has; milliseconds are named."""
    fine = type(seconds) in (int, float)
    need(fine, f"{name} must be a number of Unix seconds, not {seconds!r}")
    if not OLDEST <= seconds <= now + SLACK:
        milli = 1000 * OLDEST <= seconds <= 1000 * (now + SLACK)
        guess = "; it looks like milliseconds, and seconds are needed" if milli else ""
        span = f"between 1990 ({OLDEST}) and a day from now ({int(now + SLACK)})"
        raise ValueError(f"{name} {str(seconds)[:40]} must lie {span} in Unix seconds{guess}")


def events_of(rows):
    """Events of imported rows, the same row counted once, in order of time."""
    found = []
    for row in rows:
        shown = tuple(filter(None, (row.get("IMPRESSION") or "").split("|")))
        about = row.get("EVENT_TYPE") or "click", float(row["TIMESTAMP"]), shown
        found.append(Event(row["USER_ID"], row["ITEM_ID"], *about))
    return merged(found)


def merged(*lists):
    """The events of all lists, equal ones once, in order of time."""
    unique = dict.fromkeys(event for events in lists for event in events)
    return sorted(unique, key=lambda event: event.time)


def parse_event(user, one, now, answered):
    """The Event of one entry of PutEvents; a list that was shown is kept with it, so it does no
    harm that `answered`, {recommendation id: item ids}, forgets."""
    shown = tuple(one.get("impression", ()))
    need(len(set(shown)) == len(shown), "impression: an item stands in it twice")
    check_time(one["sentAt"], now, "sentAt")
    about = float(one["sentAt"]), shown, one.get("recommendationId")
    return resolved(Event(user, one.get("itemId"), one["eventType"], *about), answered)


def resolved(event, answered):
    """The event with the list of its recommendation as its impression, where it has none."""
    return replace(
        event, impression=event.impression or tuple(answered.get(event.recommendation, ()))
    )


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
    given = request.get("campaignConfig", {}).get("itemExplorationConfig", {})
    unknown = sorted(set(given) - set(EXPLORATION) if explores else given)
    need(not unknown, f"not built for this recipe: {unknown}")
    found = EXPLORATION | before.get("itemExplorationConfig", {}) | given
    weight, days = (float(found[name]) for name in EXPLORATION)
    fine = 0 <= weight <= 1 and 0 < days < float("inf")
    need(fine, f"the weight lies in 0 to 1 and the cut-off above 0 days, not {found}")
    return {"itemExplorationConfig": found} if explores else {}


def past_of(events):
    """{user: [(time, item), …]}: what each took, in the order in which it came in."""
    found = {}
    for event in events:
        if event.engaged:
            found.setdefault(event.user, []).append((event.time, event.item))
    return found


def training_job(imported, streamed, read=None):
    """(the events that a trainer reads, {user: what they took}): all, or for an UPDATE those
    that came after the first `read` of both lists, with the past of their users."""
    if read is None:
        return merged(imported, streamed), {}
    old = {*imported[: read[0]], *streamed[: read[1]]}
    new = [e for e in merged(imported[read[0] :], streamed[read[1] :]) if e not in old]
    users = {event.user for event in new}
    past = past_of(event for event in [*imported, *streamed] if event.user in users)
    return new, {user: sorted(set(rows)) for user, rows in past.items()}
