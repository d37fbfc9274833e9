"""A small client for the HTTP doors of a node, on nothing but the standard library."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Any, Literal

_DOORS = {
    "value-context": "/.well-known/vcp/messages",
    "vibe": "/vcp",
    "vacant": "/a2a/message/send",
    "agh": "/agh",
}
# The most of an answer that is read.
_ANSWER_BYTES = 64 << 20


class NoAnswer(Exception):
    """Nothing answers there, or it broke off."""


@dataclass(frozen=True)
class Answer:
    """What a node answered."""

    status: int
    body: bytes

    @property
    def ok(self) -> bool:
        """Whether the node did what it was asked."""
        return 200 <= self.status < 300

    def json(self) -> Any:
        """The body as a value."""
        return json.loads(self.body)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class Client:
    """A node, and the token that lets us in. Redirects are not followed: a signed call stays where it was sent."""

    def __init__(self, url: str, token: str | None = None, timeout_s: float = 60.0) -> None:
        self._url = url.rstrip("/")
        self._token = token
        self._timeout_s = timeout_s
        no_proxy = urllib.request.ProxyHandler({})
        self._opener = urllib.request.build_opener(no_proxy, _NoRedirects())

    def send(
        self, protocol: Literal["value-context", "vibe", "vacant", "agh"], envelope: bytes | str
    ) -> Answer:
        """Brings an envelope to the protocol's own door."""
        return self._call("POST", _DOORS[protocol], envelope)

    def speak(self, protocol: Literal["value-context", "vibe", "vacant", "agh"], content: Any) -> Answer:
        """Lets a hosted agent send: the node adds identifiers, time and signature."""
        return self._call("POST", f"/send/{protocol}", json.dumps(content))

    def inbox(
        self, protocol: str, *agent: str, after: int | None = None, limit: int = 100, wait_s: int = 0
    ) -> Answer:
        """The entries of an inbox; for agh the agent is channel and peer."""
        query = {"limit": str(limit), "wait": str(wait_s)}
        if after is not None:
            query["after"] = str(after)
        return self._call("GET", f"{_path('inbox', protocol, *agent)}?{urllib.parse.urlencode(query)}")

    def acknowledge(self, protocol: str, *agent: str, through: int) -> Answer:
        """Moves the durable cursor of an inbox."""
        return self._call("POST", _path("inbox", protocol, *agent, "ack"), json.dumps({"through": through}))

    def state(self, protocol: str, agent: str) -> Answer:
        """What the node holds about an agent."""
        return self._call("GET", _path("state", protocol, agent))

    def log(self, start: int = 1, limit: int = 100) -> Answer:
        """Lines of the journal, one JSON text a line."""
        return self._call("GET", f"/log?from={start}&limit={limit}")

    def _call(self, method: str, path: str, body: bytes | str | None = None) -> Answer:
        data = body.encode() if isinstance(body, str) else body
        request = urllib.request.Request(self._url + path, data=data, method=method)
        if data is not None:
            request.add_header("Content-Type", "application/json")
        if self._token is not None:
            request.add_header("Authorization", f"Bearer {self._token}")
        try:
            with self._opener.open(request, timeout=self._timeout_s) as response:
                return Answer(response.status, response.read(_ANSWER_BYTES))
        except urllib.error.HTTPError as refusal:
            return Answer(refusal.code, refusal.read(_ANSWER_BYTES))
        except (urllib.error.URLError, OSError) as error:
            raise NoAnswer(f"{self._url}: {error}") from error


def _path(*segments: str) -> str:
    return "".join("/" + urllib.parse.quote(segment, safe="") for segment in segments)
