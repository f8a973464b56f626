"""Who may speak to the page: its own browser tab, and nobody else.

Any page that a user has open can send requests to 127.0.0.1, and a name that an attacker owns can be made to lead there
(DNS rebinding). So every request needs the token, in the first address or in the cookie that it is changed for; the Host must
be a name of this machine, and the Origin, where a browser gives one, this page's own.
"""

from __future__ import annotations

import ipaddress
import secrets
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse, PlainTextResponse, Response

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

BODY = 4 * 1024**2  # bytes that a request may have
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
LOCAL = ("127.0.0.1", "localhost", "::1")
CLOSED = "This page opens at the address that the terminal shows: with its token."


class Names:
    """The names under which a server may be spoken to; ports may be forwarded and are not looked at."""

    def __init__(self, host: str) -> None:
        self.known = {*LOCAL, host.casefold()}
        self.numbers = is_everywhere(host)  # an address cannot be rebound to another
        if self.numbers:
            self.known |= {socket.gethostname().casefold(), socket.getfqdn().casefold()}

    def allow(self, host: str) -> bool:
        try:
            name = (urlsplit(f"//{host}").hostname or "").casefold()
        except ValueError:  # no host has such a name
            return False
        return name in self.known or (self.numbers and address(name) is not None)


def address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def is_everywhere(host: str) -> bool:
    found = address(host)
    return found is not None and found.is_unspecified


class Guard:
    """Around the app: refuses what may not pass, limits what may, and puts headers on every answer."""

    def __init__(self, app: App, token: str, host: str, port: int) -> None:
        self.app, self.token, self.names = app, token, Names(host)
        self.cookie = f"corewood-{port}"  # cookies do not know ports: two pages must not take each other's

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        entering = self.entering(scope)

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                if entering and message["status"] == 200:
                    headers.append("Set-Cookie", f"{self.cookie}={self.token}; Path=/; HttpOnly; SameSite=Strict")
            await send(message)

        refusal = self.refusal(scope, Headers(scope=scope), entering)
        if refusal is None and scope["method"] == "POST":
            body = await whole(receive)
            refusal = refused(413, f"a request has at most {BODY:,} bytes") if body is None else None
            receive = again(body or b"", receive)
        await (refusal or self.app)(scope, receive, answer)

    def entering(self, scope: MutableMapping[str, Any]) -> bool:
        """Whether this is the address that the terminal shows."""
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        return scope["path"] == "/" and scope["method"] == "GET" and secrets.compare_digest(given.encode(), self.token.encode())

    def refusal(self, scope: MutableMapping[str, Any], headers: Headers, entering: bool) -> Response | None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self.names.allow(host):
            return refused(403, "wrong host: this server is spoken to by its address alone")
        if origin is not None and origin.casefold() not in (f"http://{host}".casefold(), f"https://{host}".casefold()):
            return refused(403, "wrong origin: another page may not speak to this one")
        if scope["method"] == "POST" and headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return refused(403, "wrong origin: another page may not speak to this one")
        if scope["method"] == "POST" and headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return refused(415, "a request is JSON")
        if not entering and not secrets.compare_digest(self.given(headers).encode(), self.token.encode()):
            return refused(403, CLOSED) if scope["path"].startswith("/api/") else PlainTextResponse(CLOSED, 403)
        return None

    def given(self, headers: Headers) -> str:
        return cookie_parser(headers.get("cookie", "")).get(self.cookie, "")


def refused(status: int, why: str) -> Response:
    return JSONResponse({"error": why}, status)


async def whole(receive: Receive) -> bytes | None:
    """The body of a request, or None where it is longer than it may be."""
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message["type"] == "http.request" and message.get("more_body", False)
        if len(body) > BODY:
            return None
    return body


def again(body: bytes, receive: Receive) -> Receive:
    """Gives the body once, then what follows it: the end of the connection."""
    given = False

    async def receiving() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receiving
