"""The camera's end of the line, where what it saw is kept until the board says that it has it;
and a listener's, without a browser.
"""

import json
import urllib.error
import urllib.parse
import urllib.request

DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # past any proxy


class Sender:
    """One camera at one gate. `saw` notes an event; `send` posts all that is not yet taken.

    A camera that is switched on again must go on counting, so `first` is its next number.
    """

    def __init__(self, url: str, camera: str, key: str, gate: str, clock, first: int = 1):
        self.url, self.camera, self.key, self.gate = url, camera, key, gate
        self.clock, self.next, self.waiting = clock, first, []

    def saw(self, name: str, clock: float) -> None:
        """Note an event at a time of the camera's own clock."""
        self.waiting.append({"seq": self.next, "name": name, "clock": clock})
        self.next += 1

    def send(self, order=list) -> bool:
        """Whether the board took all that waits (nothing, too: a sign of life). `order` may
        rearrange what is sent. ValueError for a post that the board will never take."""
        events = order(self.waiting)[:500]
        post = {
            "camera": self.camera,
            "gate": self.gate,
            "sent": self.clock(),
            "events": events,
        }
        request = urllib.request.Request(
            f"{self.url}/seen",
            json.dumps(post).encode(),
            {"Content-Type": "application/json", "X-Camera-Key": self.key},
        )
        try:
            with DIRECT.open(request, timeout=5) as response:
                response.read()
        except urllib.error.HTTPError as error:
            with error:
                if error.code < 500:
                    raise ValueError(f"{error.code}: {error.read().decode()}") from None
            return False
        except OSError:
            return False
        taken = {one["seq"] for one in events}
        self.waiting = [one for one in self.waiting if one["seq"] not in taken]
        return not self.waiting


def listen(url: str, token: str, boards: int = 1, last: str | None = None) -> str:
    """A view's stream as text, until its board was told so many times. PermissionError for a
    token that has no view. `last` is the id that a browser would name after a break."""
    about = {} if last is None else {"Last-Event-ID": last}
    query = urllib.parse.urlencode({"token": token})
    request = urllib.request.Request(f"{url}/events?{query}", headers=about)
    try:
        response = DIRECT.open(request, timeout=10)
    except urllib.error.HTTPError as error:
        with error:
            raise PermissionError(f"{error.code}: {error.read().decode()}") from None
    with response:
        lines, told = [], 0
        while told < boards:
            lines.append(response.readline().decode())
            told += lines[-1].startswith("event: board")
        lines.append(response.readline().decode())
    return "".join(lines)
