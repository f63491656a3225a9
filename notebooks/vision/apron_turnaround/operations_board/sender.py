"""The camera's end of the line: what it saw is kept until the board says that it has it."""

import json
import urllib.error
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
        post = {"camera": self.camera, "gate": self.gate, "sent": self.clock(), "events": events}
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
