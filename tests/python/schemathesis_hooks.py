"""What Schemathesis cannot know of the API: what there is to ask about, and where an event stream ends."""

import json
import os
import threading
import urllib.request

import schemathesis

BASE = os.environ["TURNBUCKLE_BASE"]
# Every second call is about things that exist; the others are about what was made up.
EVERY = 2
# So many calls about the same things, whatever these calls do to them.
LONG = 40


class Known:
    """Things that exist: a session with a turn that waits for a person, its card, a trigger and a run of it."""

    def __init__(self):
        self.lock = threading.Lock()
        self.calls = 0
        self.ids = {}

    def next(self):
        """The things to ask about, or nothing when this call is about what was made up."""
        with self.lock:
            self.calls += 1
            if self.calls % LONG == 1:
                self.ids = make()
            return self.ids if self.calls % EVERY == 0 else {}


def make():
    session = ask("POST", "/v1/sessions", {})["id"]
    content = "Reply to the newest thread"
    turn = ask("POST", f"/v1/sessions/{session}/turns", {"content": content})["turn"]
    # The stream ends when the turn waits.
    ask("GET", f"/v1/sessions/{session}/events?until=idle")
    cards = ask("GET", f"/v1/approvals?session={session}")["items"]
    trigger = ask("POST", "/v1/triggers", {"name": "now", "cron": "0 0 1 1 *", "content": "Hello."})["id"]
    run = ask("POST", f"/v1/triggers/{trigger}/run", {})
    return {
        "agent": "desk",
        "session": session,
        "thread": session,
        "chat": session,
        "turn": turn,
        "approval": cards[0]["id"],
        "trigger": trigger,
        "run": run.get("run") or run.get("id"),
    }


def ask(method, path, body=None):
    request = urllib.request.Request(BASE + path, method=method)
    if body is not None:
        request.data = json.dumps(body).encode()
        request.add_header("content-type", "application/json")
    request.add_header("accept", "text/event-stream" if "/events" in path else "application/json")
    with urllib.request.urlopen(request, timeout=30) as answer:
        text = answer.read()
        return None if "/events" in path else json.loads(text)


known = Known()


@schemathesis.hook
def before_load_schema(context, raw_schema):
    """The document describes a stream as text; Schemathesis would hold each of its events to that."""
    for item in raw_schema["paths"].values():
        for operation in item.values():
            for answer in operation.get("responses", {}).values():
                answer.get("content", {}).get("text/event-stream", {}).pop("schema", None)


@schemathesis.hook
def before_call(context, case, kwargs):
    path = case.operation.path
    ids = known.next()
    for name in case.path_parameters or {}:
        if name in ids:
            case.path_parameters[name] = ids[name]
    if ids and path == "/v1/sessions" and isinstance(case.body, dict):
        # What was made up names an agent and a model that are not there.
        case.body = {k: v for k, v in case.body.items() if k not in ("id", "agent", "model")}
    # A watched session's stream goes on for as long as the session does, so each is asked to end when nothing is at work.
    if path.endswith("/events"):
        case.query = {**(case.query or {}), "until": "idle"}
