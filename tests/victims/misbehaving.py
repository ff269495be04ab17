"""A server that answers like one of the Open Inference Protocol, but as badly as its models' names say.

    python misbehaving.py       prints its port, then serves on 127.0.0.1 until it is killed

`/v2/models/drop-20` drops a fifth of the connections, `/seen/drop-20` tells how many rows it has computed. A row counts
as seen when the model computed it, whether or not anybody heard the answer. No torch: it must start at once.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import socket
from collections import Counter
from email.utils import formatdate
from typing import Any

import uvicorn

CLASSES = 3
seen: Counter[str] = Counter()
turns: Counter[str] = Counter()
busy: Counter[str] = Counter()
most_busy: Counter[str] = Counter()
chance = random.Random(0)


def probabilities(row: list[float]) -> list[float]:
    total = sum(row[:CLASSES]) + CLASSES
    return [(value + 1) / total for value in row[:CLASSES]]


def explained(row: list[float]) -> dict[str, Any]:
    """Gradients of the probabilities by name of the class, that of the best, and some that are none."""
    total, best = sum(row[:CLASSES]) + CLASSES, max(range(CLASSES), key=lambda c: row[c])
    maps = [
        [((c == f) - (row[c] + 1) / total) / total if f < CLASSES else 0.0 for f in range(len(row))]
        for c in range(CLASSES)
    ]
    by_name = dict(zip(("cat", "dog", "eel"), maps, strict=True))
    return {"slopes": by_name, "slope": maps[best], "short": maps[best][:2]}


def attributions(tensor: dict[str, Any]) -> dict[str, Any]:
    rows, width = tensor["shape"]
    maps = [explained(tensor["data"][i * width : (i + 1) * width])["slopes"] for i in range(rows)]
    flat = [value for each in maps for one in each.values() for value in one]
    return {"name": "slopes", "shape": [rows, CLASSES, width], "datatype": "FP64", "data": flat}


def answer(tensor: dict[str, Any]) -> dict[str, Any]:
    rows, width = tensor["shape"]
    data = tensor["data"]
    flat = [p for i in range(rows) for p in probabilities(data[i * width : (i + 1) * width])]
    return {"name": "probs", "shape": [rows, CLASSES], "datatype": "FP64", "data": flat}


def metadata(name: str) -> dict[str, Any]:
    box = {"low": 0.0, "high": 1.0}
    return {
        "name": name,
        "inputs": [{"name": "x", "datatype": "FP64", "shape": [-1, 4], "parameters": box}],
        "outputs": [
            {"name": "probs", "datatype": "FP64", "shape": [-1, CLASSES]},
            *([{"name": "slopes", "datatype": "FP64", "shape": [-1, CLASSES, 4]}] if name == "explained" else []),
        ],
    }


class Reply:
    """One request's way to answer, or not to."""

    def __init__(self, send: Any) -> None:
        self._send = send

    async def __call__(self, body: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        await self.start(len(raw), status, headers)
        await self._send({"type": "http.response.body", "body": raw})

    async def start(self, length: int, status: int = 200, headers: dict[str, str] | None = None) -> None:
        fields = {"content-length": str(length), "content-type": "application/json", **(headers or {})}
        raw = [(name.encode(), value.encode()) for name, value in fields.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": raw})

    async def part(self, raw: bytes) -> None:
        await self._send({"type": "http.response.body", "body": raw, "more_body": True})

    def drop(self) -> None:
        self._send.__self__.transport.abort()  # uvicorn's own: an application has no other way to be this rude


async def infer(name: str, tensor: dict[str, Any], reply: Reply, headers: dict[str, str]) -> None:
    """The first word of the name is what goes wrong, the second how often, in percent; then it is done properly.

    What goes wrong is spread evenly, the first request included: any handful of requests meets its share.
    """
    manner, _, percent = name.partition("-")
    turns[name] += 1
    share = float(percent or 100) / 100
    wrong = math.ceil(turns[name] * share) > math.ceil((turns[name] - 1) * share)
    key = headers.get("authorization")
    refusals: dict[str, tuple[int, dict[str, str]]] = {  # these compute nothing
        "refuse": [(429, {"retry-after": "0"}), (503, {"retry-after": formatdate(usegmt=True)}), (429, {})][
            turns[name] % 3
        ],
        "away": (429, {"retry-after": "3600"}),
        "moved": (307, {"location": "http://203.0.113.1/v2/models/moved/infer"}),
        "reject": (400, {}),
        "keyed": (401, {}),
    }
    if manner == "single" and tensor["shape"][0] > 1:
        await reply({"error": "one at a time"}, 400)
        return
    if manner in refusals and wrong and not (manner == "keyed" and key == "Bearer sesame-4711"):
        await reply({"error": f"not with {key}"}, *refusals[manner])
        return
    output = answer(tensor)
    rows = tensor["shape"][0]
    seen[name] += rows
    busy[name] += 1
    most_busy[name] = max(most_busy[name], busy[name])
    await asyncio.sleep(chance.random() * 0.005)  # so that answers come out of order
    busy[name] -= 1
    if manner == "quoted":
        output["data"] = list(map(str, output["data"]))
    outputs = [output, attributions(tensor)] if manner == "explained" else [output]
    whole = json.dumps({"model_name": name, "outputs": outputs}).encode()
    if not wrong or manner in ("well", "silent", "explained", "single", "quoted", *refusals):
        await reply(whole)
    else:
        await misanswer(chance.choice(ACCIDENTS) if manner == "all" else manner, output, whole, reply)


async def misanswer(manner: str, output: dict[str, Any], whole: bytes, reply: Reply) -> None:
    if manner == "drop":
        reply.drop()
    elif manner in ("500", "503"):
        await reply({"error": "out of memory"}, int(manner))
    elif manner == "stall":
        await asyncio.sleep(1.2)
        await reply(whole)
    elif manner == "dribble":
        await reply.start(len(whole))
        for i in range(8):
            await reply.part(whole[i : i + 1])
            await asyncio.sleep(0.25)
        reply.drop()
    elif manner == "truncated":
        await reply.start(len(whole))
        await reply.part(whole[: len(whole) // 2])
        reply.drop()
    elif manner == "cut":
        await reply(whole[: len(whole) // 2])
    else:
        await reply({"outputs": [{**output, **WRONG[manner](output)}]})


WRONG: dict[str, Any] = {
    "nan": lambda o: {"data": [float("nan"), *o["data"][1:]]},
    "null": lambda o: {"data": [None, *o["data"][1:]]},
    "text": lambda o: {"data": ["high" for _ in o["data"]]},
    "short": lambda o: {"shape": [o["shape"][0] + 1, CLASSES], "data": o["data"] + [0.2, 0.3, 0.5]},
    "narrow": lambda o: {"shape": [o["shape"][0], 1], "data": o["data"][: o["shape"][0]]},
    "shape": lambda o: {"shape": [7, 7]},
    "logits": lambda o: {"data": [value * 9 - 3 for value in o["data"]]},
    "drop": None,
    "500": None,
    "503": None,
    "truncated": None,
    "cut": None,
}
ACCIDENTS = [manner for manner in WRONG if manner not in ("text", "narrow")]  # these, at first, would come again


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        return
    reply, path = Reply(send), scope["path"].split("/")[1:]
    body = b""
    while (message := await receive())["type"] == "http.request":
        body += message["body"]
        if not message.get("more_body"):
            break
    headers = {name.decode(): value.decode() for name, value in scope["headers"]}
    if path[0] == "seen":
        await reply({"rows": seen[path[1]], "requests": turns[path[1]], "at_once": most_busy[path[1]]})
    elif path[0] == "classify":  # an API of another shape
        rows = json.loads(body)["images"]["pixels"]
        seen["classify"] += len(rows)
        scores = [dict(zip(("cat", "dog", "eel"), probabilities(row), strict=True)) for row in rows]
        named = [{"scores": each, "best": max(each, key=each.__getitem__)} for each in scores]
        await reply({"results": [{**each, **explained(row)} for each, row in zip(named, rows, strict=True)]})
    elif path[-1] == "infer":
        await infer(path[2], json.loads(body)["inputs"][0], reply, headers)
    elif path[-1] == "silent":
        await reply({"error": "unknown"}, 404)
    else:
        await reply(metadata(path[-1]))


if __name__ == "__main__":
    door = socket.create_server(("127.0.0.1", 0))
    print(door.getsockname()[1], flush=True)  # noqa: T201
    uvicorn.Server(uvicorn.Config(app, log_level="critical", ws="none", lifespan="off")).run(sockets=[door])
