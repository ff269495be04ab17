"""uvicorn's HTTP with an end for connections on which no request comes, or only half of one."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

SECONDS_FOR_A_REQUEST = 10.0


class ImpatientProtocol(H11Protocol):
    """Closes a connection that has brought no whole head of a request within some seconds of the last answer."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begins to wait."""
        super().connection_made(transport)
        self.loop.call_later(SECONDS_FOR_A_REQUEST, self._look, None)

    def _look(self, last: object) -> None:
        if self.transport.is_closing():
            return
        if self.cycle is last and (last is None or self.cycle.response_complete):
            self.transport.close()
        else:
            self.loop.call_later(SECONDS_FOR_A_REQUEST, self._look, self.cycle)
