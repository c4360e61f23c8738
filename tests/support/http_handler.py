"""EveryMethod: a handler of HTTP requests that answers each method by one function."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler


class EveryMethod(BaseHTTPRequestHandler):
    """``respond`` answers a request, whose method is ``self.command``."""

    def respond(self) -> None:
        raise NotImplementedError

    def do_GET(self) -> None:
        self.respond()

    def do_HEAD(self) -> None:
        self.respond()

    def do_PUT(self) -> None:
        self.respond()

    def do_POST(self) -> None:
        self.respond()

    def do_DELETE(self) -> None:
        self.respond()

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""
