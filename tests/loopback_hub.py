"""A Hub on this machine: the real client talks to it over HTTP, it keeps all in memory, and it fails when told to.

`ROUTES` is what it knows of the Hub's protocol; a client needs `environment` or `patched` to speak it without xet.
"""

import base64
import hashlib
import json
import math
import os
import re
import socket
import struct
import threading
import time
import types
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import Message
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
import yaml

TOKEN = "hf_test"
REGULAR = {"", ".json", ".jsonl", ".md", ".py", ".txt", ".yaml", ".yml"}
"""Suffixes of regular files; others are large files, which git knows by a pointer that holds their SHA-256."""
DATE = "2024-01-01T00:00:00.000Z"


class Fault(Enum):
    """What can happen to a request instead of a status; all but the black hole serve it, then spoil the answer."""

    RESET = "half of it, then the connection is reset; at once if the answer has no body"
    TRUNCATED = "half of it, with the length of the whole, then the connection is closed"
    WRONG_BYTES = "as many bytes, but others"
    BLACK_HOLE = "none as long as the hub is open"
    SLOW = "after some seconds"


RESET, TRUNCATED, WRONG_BYTES, BLACK_HOLE, SLOW = Fault


@dataclass
class PlannedFault:
    """A fault that waits for its requests."""

    pattern: str
    fault: Fault | int
    left: int | None
    headers: dict[str, str]
    seconds: float


class Reply(NamedTuple):
    """An answer before anything has gone wrong with it."""

    status: int
    body: bytes
    headers: dict[str, str]
    stream: Iterator[bytes] | None = None
    """What comes instead of a body, bit by bit."""

    @classmethod
    def of(cls, value: object, status: int = 200, **headers: str) -> Self:
        return cls(status, json.dumps(value, default=str).encode(), {"Content-Type": "application/json"} | headers)


class Refusal(Exception):
    """Ends a visit with an error that the client understands."""

    def __init__(self, status: int, message: str, code: str | None = None, **headers: str) -> None:
        named = {"X-Error-Message": message} | ({"X-Error-Code": code} if code else {}) | headers
        self.reply = Reply.of({"error": message}, status, **named)


class Blob(NamedTuple):
    """How the Hub knows a file."""

    oid: str
    size: int
    lfs: dict[str, str | int] | None
    etag: str

    @classmethod
    def of(cls, path: str, content: bytes) -> Self:
        if not is_large(path, len(content)):
            oid = git_hash(content)
            return cls(oid, len(content), None, oid)
        sha256 = hashlib.sha256(content).hexdigest()
        pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {len(content)}\n".encode()
        lfs = {"oid": sha256, "sha256": sha256, "size": len(content), "pointerSize": len(pointer)}
        return cls(git_hash(pointer), len(content), lfs, sha256)


class Commit(NamedTuple):
    """A state of a repository."""

    oid: str
    title: str
    files: dict[str, bytes]


@dataclass
class Repo:
    """A repository; `settings` is what its creator asked for, such as `sdk` and `hardware`."""

    repo_id: str
    repo_type: str
    private: bool = False
    settings: dict[str, Any] = field(default_factory=dict)
    downloads: int = 0
    commits: list[Commit] = field(default_factory=list)
    branches: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)

    @property
    def page(self) -> str:
        """Its address below the Hub's."""
        return self.repo_id if self.repo_type == "model" else f"{self.repo_type}s/{self.repo_id}"

    def at(self, revision: str) -> Commit:
        """The commit that a branch, a tag or an oid names."""
        oid = self.branches.get(revision) or self.tags.get(revision) or revision
        for commit in self.commits:
            if commit.oid == oid:
                return commit
        raise Refusal(404, f"Invalid rev id: {revision}", "RevisionNotFound")

    def commit(self, title: str, files: dict[str, bytes], branch: str = "main") -> str:
        """Makes `files` the content of a branch and returns the oid; same history, same oid."""
        contents = {path: Blob.of(path, content).etag for path, content in files.items()}
        oid = hashlib.sha1(json.dumps([self.repo_id, len(self.commits), title, contents]).encode()).hexdigest()
        self.commits.append(Commit(oid, title, files))
        self.branches[branch] = oid
        return oid

    def told(self, commit: Commit, *, blobs: bool = False) -> dict[str, Any]:
        """What the Hub tells of a repository; with `blobs` more of its files than their names."""
        siblings = [{"rfilename": path} for path in sorted(commit.files)]
        for sibling in siblings if blobs else []:
            blob = Blob.of(sibling["rfilename"], commit.files[sibling["rfilename"]])
            sibling |= {"size": blob.size, "blobId": blob.oid, "lfs": blob.lfs}
        card = {}
        with suppress(yaml.YAMLError):
            card = front_matter(commit.files.get("README.md", b"").decode(errors="replace"))
        tags = card["tags"] if isinstance(card.get("tags"), list) else []
        tags = [str(tag) for tag in (*tags, card.get("library_name"), card.get("pipeline_tag")) if tag]
        return {
            "id": self.repo_id,
            "author": self.repo_id.split("/")[0],
            "sha": commit.oid,
            "createdAt": DATE,
            "lastModified": DATE,
            "private": self.private,
            "downloads": self.downloads,
            "likes": 0,
            "tags": tags,
            "library_name": card.get("library_name"),
            "pipeline_tag": card.get("pipeline_tag"),
            "sdk": self.settings.get("sdk"),
            "cardData": card,
            "siblings": siblings,
        }


@dataclass
class Job:
    """A rented machine's work; `wish` is what its creator asked for."""

    id: str
    owner: str
    wish: dict[str, Any]
    stage: str = "SCHEDULING"
    message: str | None = None
    lines: list[str] = field(default_factory=list)
    """Its log."""
    cancelled: threading.Event = field(default_factory=threading.Event)

    @property
    def ended(self) -> bool:
        return self.stage in ("COMPLETED", "CANCELED", "ERROR")

    def run(self, work: "Callable[[Job], int]") -> None:
        """Does `work`, whose exit status it returns; again where that is not 0 and attempts are left."""
        status = 1
        try:
            for _ in range(self.wish.get("attempts", 1)):
                if status and not self.cancelled.is_set():
                    self.stage = "RUNNING"
                    status = work(self)
        finally:
            self.message = f"Job failed with exit code: {status}" if status else None
            self.stage = "CANCELED" if self.cancelled.is_set() else "ERROR" if status else "COMPLETED"

    def told(self) -> dict[str, Any]:
        """What the Hub tells of a job: of its secrets the names alone."""
        named = {"id": "0", "name": self.owner, "type": "user"}
        status = {"stage": self.stage, "message": self.message}
        secrets = dict.fromkeys(self.wish.get("secrets", {}))
        return self.wish | {"id": self.id, "createdAt": DATE, "owner": named, "status": status, "secrets": secrets}

    def events(self, closed: threading.Event) -> Iterator[bytes]:
        """Its log as a stream of events, until it has ended."""
        sent = 0
        while not closed.is_set():
            ended, new = self.ended, self.lines[sent:]
            for number, line in enumerate(new, start=sent):
                stamp = f"2024-01-01T00:{number // 60:02}:{number % 60:02}.000Z"
                yield f"data: {json.dumps({'data': line, 'timestamp': stamp})}\n\n".encode()
            sent += len(new)
            if ended:
                return
            time.sleep(0.01)


HARDWARE = [
    ("cpu-basic", "CPU Basic", "2 vCPU", "16 GB", 167),
    ("cpu-upgrade", "CPU Upgrade", "8 vCPU", "32 GB", 500),
    ("t4-small", "Nvidia T4 - small", "4 vCPU", "15 GB", 6667),
]
"""Machines for rent: name, name in words, cores, memory, millionths of a dollar a minute."""


def complete(job: Job) -> int:
    """A work that takes no time."""
    job.lines.append("done")
    return 0


class LoopbackHub:
    """The server, and what tests see of it."""

    def __init__(self) -> None:
        self.token = TOKEN
        self.user = "tester"
        self.repos: dict[tuple[str, str], Repo] = {}
        """By type and id."""
        self.collections: dict[str, dict[str, Any]] = {}
        """By slug, as the client gets them."""
        self.jobs: list[Job] = []
        self.work: Callable[[Job], int] = complete
        """What jobs do, in a thread of each; it returns the exit status."""
        self.large_files: dict[str, bytes] = {}
        """All that was uploaded as such, by SHA-256."""
        self.requests: list[tuple[str, str]] = []
        """Method and path of all that arrived, also of those that met a fault."""
        self.first_asked = math.inf
        """When the first of them came, by `time.monotonic`."""
        self.lock = threading.RLock()
        self.closed = threading.Event()
        self.connections: set[socket.socket] = set()
        self._faults: list[PlannedFault] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Connection", (_Connection,), {"hub": self}))
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Nobody answers any more: ends the connections too, whose threads, all daemons, would go on."""
        if not self.closed.is_set():
            self.closed.set()
            self._server.shutdown()
            self._server.server_close()
        for connection in list(self.connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def create(self, repo: Repo) -> Repo:
        """Adds a repository, with the commit that the Hub begins them with."""
        repo.commit("initial commit", {".gitattributes": b"*.safetensors filter=lfs diff=lfs merge=lfs -text\n"})
        self.repos[repo.repo_type, repo.repo_id] = repo
        return repo

    def put(self, repo_id: str, files: dict[str, bytes], repo_type: str = "model") -> str:
        """Lays `files` over a repository's main branch, creates it if need be, and returns the commit's oid."""
        with self.lock:
            repo = self.repos.get((repo_type, repo_id)) or self.create(Repo(repo_id, repo_type))
            return repo.commit("Put by a test", repo.at("main").files | files)

    def files(self, repo_id: str, revision: str | None = None, repo_type: str = "model") -> dict[str, bytes]:
        """What a repository holds."""
        with self.lock:
            return dict(self.repos[repo_type, repo_id].at(revision or "main").files)

    def fail(
        self,
        pattern: str,
        fault: Fault | int,
        times: int | None = 1,
        *,
        headers: dict[str, str] | None = None,
        seconds: float = 0.0,
    ) -> None:
        """Requests in whose `METHOD path` the pattern is found meet a fault or, unserved, a status with `headers`.

        Of several plans the first counts; `times=None` is for ever; `seconds` are those of `SLOW`.
        """
        self._faults.append(PlannedFault(pattern, fault, times, headers or {}, seconds))

    def clear_faults(self) -> None:
        """From now on all goes well."""
        self._faults = []

    def arrived(self, visit: "Visit") -> PlannedFault | None:
        """Notes a request and returns what is to happen to it."""
        with self.lock:
            self.first_asked = min(self.first_asked, time.monotonic())
            self.requests.append((visit.method, visit.path))
            for plan in self._faults:
                if plan.left != 0 and re.search(plan.pattern, f"{visit.method} {visit.path}"):
                    plan.left = None if plan.left is None else plan.left - 1
                    return plan
        return None


@dataclass
class Visit:
    """A request that has arrived in whole, and the ways to answer it."""

    hub: LoopbackHub
    method: str
    path: str
    query: dict[str, list[str]]
    headers: Message
    body: bytes

    def serve(self) -> Reply:
        """The answer of the route that fits; what a path says of a repository is looked up before."""
        try:
            if self.headers["Authorization"] not in (None, f"Bearer {self.hub.token}"):
                raise Refusal(401, "Invalid credentials in Authorization header")
            for methods, pattern, answer in ROUTES:
                match = re.fullmatch(pattern, self.path)
                if match and self.method in methods.split():
                    parts = {name: part and unquote(part) for name, part in match.groupdict().items()}
                    if "repo_id" in parts:
                        self.repo = self.find(parts.pop("kind") or "models", parts.pop("repo_id"))
                    if "revision" in parts:
                        self.revision = parts.pop("revision") or "main"
                        self.commit = self.repo.at(self.revision)
                    return answer(self, **parts)
            raise Refusal(404, f"The loopback Hub has no {self.method} {self.path}")
        except Refusal as refusal:
            return refusal.reply

    def find(self, kind: str, repo_id: str) -> Repo:
        """The repository, if it is there for whoever asks and they may do with it what they want."""
        repo = self.hub.repos.get((kind.removesuffix("s"), repo_id))
        if not repo or not self.sees(repo):
            raise Refusal(404, "Repository not found", "RepoNotFound")
        if self.method not in ("GET", "HEAD"):
            self.require_owner(repo_id)
        return repo

    def sees(self, repo: Repo) -> bool:
        return not repo.private or (bool(self.headers["Authorization"]) and self.owns(repo.repo_id))

    def owns(self, name: str) -> bool:
        return name.split("/")[0] == self.hub.user

    def require_owner(self, name: str) -> None:
        if not self.headers["Authorization"]:
            raise Refusal(401, "Invalid username or password.")
        if not self.owns(name):
            raise Refusal(403, f"You have no right to change {name}")

    def json(self) -> Any:
        return json.loads(self.body)

    def asks(self, flag: str) -> bool:
        return self.query.get(flag) == ["true"]

    def whoami(self) -> Reply:
        self.require_owner(self.hub.user)
        auth = {"type": "access_token", "accessToken": {"displayName": "test", "role": "write"}}
        face = {"fullname": self.hub.user.title(), "avatarUrl": f"{self.hub.url}/avatar.svg"}
        return Reply.of({"type": "user", "name": self.hub.user, "orgs": [], "auth": auth} | face)

    def validate_yaml(self) -> Reply:
        try:
            card = front_matter(self.json()["content"])
        except yaml.YAMLError as error:
            return Reply.of({"errors": [{"message": str(error)}], "warnings": []}, 400)
        warnings = [] if card else [{"message": "empty or missing yaml metadata in repo card"}]
        return Reply.of({"errors": [], "warnings": warnings})

    def create_repo(self) -> Reply:
        wish = self.json()
        repo_id = f"{wish.get('organization') or self.hub.user}/{wish['name']}"
        self.require_owner(repo_id)
        repo = Repo(repo_id, wish.get("type", "model"), private=wish.get("visibility") == "private", settings=wish)
        answer = {"url": f"{self.hub.url}/{repo.page}"}
        if (repo.repo_type, repo_id) in self.hub.repos:
            return Reply.of(answer | {"error": f"You already created this {repo.repo_type} repo"}, 409)
        self.hub.create(repo)
        return Reply.of(answer)

    def delete_repo(self) -> Reply:
        wish = self.json()
        repo = self.find(wish.get("type", "model"), f"{wish.get('organization') or self.hub.user}/{wish['name']}")
        del self.hub.repos[repo.repo_type, repo.repo_id]
        return Reply.of({})

    def list_repos(self, kind: str) -> Reply:
        """Leaves out what the client has not asked for."""
        author, search = self.query.get("author"), self.query.get("search", [""])[0].lower()
        wanted = {*self.query.get("filter", []), *self.query.get("pipeline_tag", [])}
        hidden = set() if self.asks("full") else {"author", "sha", "lastModified", "siblings"}
        hidden |= set() if self.asks("cardData") else {"cardData"}
        answer = []
        for repo in self.hub.repos.values():
            told = repo.told(repo.at("main"))
            here = f"{repo.repo_type}s" == kind and self.sees(repo) and author in (None, [told["author"]])
            if here and search in repo.repo_id.lower() and wanted <= set(told["tags"]):
                answer.append({key: told[key] for key in told if key not in hidden})
        return Reply.of(answer)

    def repo_info(self) -> Reply:
        return Reply.of(self.repo.told(self.commit, blobs=self.asks("blobs")))

    def tree(self) -> Reply:
        """All files in all folders."""
        blobs = {path: Blob.of(path, content) for path, content in sorted(self.commit.files.items())}
        facts = ((path, {"size": blob.size, "oid": blob.oid, "lfs": blob.lfs}) for path, blob in blobs.items())
        return Reply.of([{"type": "file", "path": path} | known for path, known in facts])

    def refs(self) -> Reply:
        def listed(place: str, names: dict[str, str]) -> list[dict[str, str]]:
            return [{"name": name, "ref": f"refs/{place}/{name}", "targetCommit": oid} for name, oid in names.items()]

        repo = self.repo
        return Reply.of({"branches": listed("heads", repo.branches), "tags": listed("tags", repo.tags), "converts": []})

    def create_tag(self) -> Reply:
        tag = self.json()["tag"]
        if tag in self.repo.tags:
            raise Refusal(409, f"Tag {tag} exists already")
        self.repo.tags[tag] = self.commit.oid
        return Reply.of({})

    def preupload(self) -> Reply:
        """How to upload each file, and what is there of it: the client drops those that have not changed."""
        answers = []
        for path, size in ((file["path"], file["size"]) for file in self.json()["files"]):
            here = self.commit.files.get(path)
            known = {} if here is None else {"oid": Blob.of(path, here).etag}
            mode = "lfs" if is_large(path, size) else "regular"
            answers.append({"path": path, "uploadMode": mode, "shouldIgnore": False} | known)
        return Reply.of({"files": answers})

    def large_files(self) -> Reply:
        """Where to upload each large file that is not here yet."""
        objects = [{"oid": wish["oid"], "size": wish["size"]} for wish in self.json()["objects"]]
        for each in objects:
            if each["oid"] not in self.hub.large_files:
                place = f"{self.hub.url}/large/"
                each["actions"] = {"upload": {"href": place + each["oid"]}, "verify": {"href": f"{place}verify"}}
        return Reply.of({"transfer": "basic", "objects": objects})

    def upload_large(self, sha256: str) -> Reply:
        """Asks for no token: who knows the address may upload."""
        if hashlib.sha256(self.body).hexdigest() != sha256:
            raise Refusal(400, "The content is not that of the SHA-256")
        self.hub.large_files[sha256] = self.body
        return Reply.of({})

    def verify_large(self) -> Reply:
        wish = self.json()
        if len(self.hub.large_files.get(wish["oid"], b"")) != wish["size"]:
            raise Refusal(404, f"Nobody uploaded {wish['size']} bytes as {wish['oid']}")
        return Reply.of({})

    def make_commit(self) -> Reply:
        """All changes or none, and only on top of the parent that the client names, if any."""
        if self.revision not in self.repo.branches:
            raise Refusal(404, f"Invalid rev id: {self.revision}", "RevisionNotFound")
        header, *changes = [json.loads(line) for line in self.body.splitlines()]
        if header["value"].get("parentCommit", self.commit.oid) != self.commit.oid:
            raise Refusal(412, "A commit has happened since. Please refresh and try again.")
        files = dict(self.commit.files)
        for key, value in ((change["key"], change["value"]) for change in changes):
            path = value["path"]
            if key == "file":
                files[path] = base64.b64decode(value["content"])
            elif key == "lfsFile":
                if value["oid"] not in self.hub.large_files:
                    raise Refusal(400, f"{path} points to a large file that nobody uploaded")
                files[path] = self.hub.large_files[value["oid"]]
            else:
                inside = f"{path.rstrip('/')}/"
                gone = [name for name in files if (name == path if key == "deletedFile" else name.startswith(inside))]
                if not gone:
                    raise Refusal(404, "A file with this name doesn't exist", "EntryNotFound")
                files = {name: content for name, content in files.items() if name not in gone}
        oid = self.repo.commit(header["value"]["summary"], files, self.revision)
        return Reply.of({"commitOid": oid, "commitUrl": f"{self.hub.url}/{self.repo.page}/commit/{oid}"})

    def resolve(self, path: str) -> Reply:
        """A file, or what its `Range` asks for."""
        headers = {"X-Repo-Commit": self.commit.oid, "Content-Type": "application/octet-stream"}
        if (content := self.commit.files.get(path)) is None:
            raise Refusal(404, "Entry not found", "EntryNotFound", **headers)
        blob = Blob.of(path, content)
        headers |= {"ETag": f'"{blob.etag}"', "Accept-Ranges": "bytes"}
        headers |= {"X-Linked-ETag": f'"{blob.etag}"', "X-Linked-Size": str(blob.size)} if blob.lfs else {}
        if not (asked := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers["Range"] or "")):
            return Reply(200, content, headers)
        first, last = int(asked[1]), min(int(asked[2] or blob.size), blob.size - 1)
        if first > last:
            return Reply(416, b"", headers | {"Content-Range": f"bytes */{blob.size}"})
        return Reply(206, content[first : last + 1], headers | {"Content-Range": f"bytes {first}-{last}/{blob.size}"})

    def create_collection(self) -> Reply:
        wish = self.json()
        self.require_owner(wish["namespace"])
        name = re.sub(r"\W+", "-", wish["title"].lower())
        slug = f"{wish['namespace']}/{name}-{hashlib.sha1(name.encode()).hexdigest()[:24]}"
        if slug in self.hub.collections:
            return Reply.of({"error": "You have a collection of this title", "slug": slug}, 409)
        rest = {"lastUpdated": DATE, "position": 0, "theme": "green", "upvotes": 0, "items": []}
        self.hub.collections[slug] = wish | {"slug": slug, "owner": wish["namespace"]} | rest
        return self.get_collection(slug)

    def get_collection(self, slug: str) -> Reply:
        if slug not in self.hub.collections:
            raise Refusal(404, "Collection not found")
        return Reply.of(self.hub.collections[slug])

    def add_to_collection(self, slug: str) -> Reply:
        self.require_owner(slug)
        self.get_collection(slug)
        items, wish = self.hub.collections[slug]["items"], self.json()
        if (wish["item"]["type"], wish["item"]["id"]) not in self.hub.repos:
            raise Refusal(404, "There is no such item")
        if any(wish["item"].items() <= item.items() for item in items):
            raise Refusal(409, "The collection has this item already")
        note = {"note": {"text": wish["note"]}} if "note" in wish else {}
        items.append(wish["item"] | {"_id": str(len(items)), "position": len(items)} | note)
        return self.get_collection(slug)

    def hardware(self) -> Reply:
        accelerator = {"type": "gpu", "model": "T4", "quantity": "1", "vram": "16 GB", "manufacturer": "Nvidia"}
        costs = ("unitCostMicroUSD", "unitCostUSD", "unitLabel")
        return Reply.of(
            [
                {"name": name, "prettyName": pretty, "cpu": cpu, "ram": ram}
                | {"accelerator": accelerator if name.startswith("t4") else None}
                | dict(zip(costs, (price, price / 1e6, "minute"), strict=True))
                for name, pretty, cpu, ram, price in HARDWARE
            ]
        )

    def run_job(self, owner: str) -> Reply:
        self.require_owner(owner)
        job = Job(f"{len(self.hub.jobs) + 1:024x}", owner, self.json())
        self.hub.jobs.append(job)
        threading.Thread(target=job.run, args=(self.hub.work,), daemon=True).start()
        return Reply.of(job.told())

    def list_jobs(self, owner: str) -> Reply:
        self.require_owner(owner)
        wanted = dict(label.split("=", 1) for label in self.query.get("label", []))
        jobs = [job for job in self.hub.jobs if job.owner == owner and wanted.items() <= job.wish["labels"].items()]
        return Reply.of([job.told() for job in jobs])

    def job(self, owner: str, job: str) -> Job:
        self.require_owner(owner)
        found = next((each for each in self.hub.jobs if (each.owner, each.id) == (owner, job)), None)
        if not found:
            raise Refusal(404, "Job not found")
        return found

    def inspect_job(self, owner: str, job: str) -> Reply:
        return Reply.of(self.job(owner, job).told())

    def cancel_job(self, owner: str, job: str) -> Reply:
        self.job(owner, job).cancelled.set()
        return self.inspect_job(owner, job)

    def job_log(self, owner: str, job: str) -> Reply:
        return Reply(200, b"", {"Content-Type": "text/event-stream"}, self.job(owner, job).events(self.hub.closed))


REPO = r"(?P<repo_id>[^/]+/[^/]+)"
API = rf"/api/(?P<kind>models|spaces)/{REPO}"
PAGE = rf"/(?:(?P<kind>spaces)/)?{REPO}"
AT = r"(?P<revision>[^/]+)"
SLUG = r"(?P<slug>[^/]+/[^/]+)"
JOBS = "/api/jobs/(?P<owner>[^/]+)"
JOB = f"{JOBS}/(?P<job>[^/]+)"
ROUTES: list[tuple[str, str, Callable[..., Reply]]] = [
    ("GET", "/api/whoami-v2", Visit.whoami),
    ("POST", "/api/validate-yaml", Visit.validate_yaml),
    ("POST", "/api/repos/create", Visit.create_repo),
    ("DELETE", "/api/repos/delete", Visit.delete_repo),
    ("GET", "/api/(?P<kind>models|spaces)", Visit.list_repos),
    ("GET", f"{API}(?:/revision/{AT})?", Visit.repo_info),
    ("GET", f"{API}/tree/{AT}", Visit.tree),
    ("GET", f"{API}/refs", Visit.refs),
    ("POST", f"{API}/tag/{AT}", Visit.create_tag),
    ("POST", f"{API}/preupload/{AT}", Visit.preupload),
    ("POST", rf"{PAGE}\.git/info/lfs/objects/batch", Visit.large_files),
    ("PUT", "/large/(?P<sha256>[0-9a-f]{64})", Visit.upload_large),
    ("POST", "/large/verify", Visit.verify_large),
    ("POST", f"{API}/commit/{AT}", Visit.make_commit),
    ("HEAD GET", f"{PAGE}/resolve/{AT}/(?P<path>.+)", Visit.resolve),
    ("GET", "/api/jobs/hardware", Visit.hardware),
    ("POST", JOBS, Visit.run_job),
    ("GET", JOBS, Visit.list_jobs),
    ("GET", JOB, Visit.inspect_job),
    ("POST", f"{JOB}/cancel", Visit.cancel_job),
    ("GET", f"{JOB}/logs", Visit.job_log),
    ("POST", "/api/collections", Visit.create_collection),
    ("GET", f"/api/collections/{SLUG}", Visit.get_collection),
    ("POST", f"/api/collections/{SLUG}/items", Visit.add_to_collection),
]


def front_matter(readme: str) -> dict[str, Any]:
    """The metadata at the top of a README; empty if there is none."""
    match = re.match(r"---\s*\n(.*?)\n---\s*(\n|$)", readme, re.DOTALL)
    card = yaml.safe_load(match[1]) if match else None
    return card if isinstance(card, dict) else {}


def git_hash(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def is_large(path: str, size: int) -> bool:
    """Whether a file is kept as a large file; the client never sends empty ones as such."""
    return size > 0 and (PurePosixPath(path).suffix not in REGULAR or size > 10_000_000)


class _Connection(BaseHTTPRequestHandler):
    """A client's connection, and what goes wrong on it."""

    hub: LoopbackHub
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self.hub.connections.add(self.connection)

    def finish(self) -> None:
        self.hub.connections.discard(self.connection)
        super().finish()

    def handle(self) -> None:
        with suppress(ConnectionError):  # the client has left
            super().handle()

    def log_message(self, *_: object) -> None:
        """Silence; `LoopbackHub.requests` is the log."""

    def answer(self) -> None:
        url, body = urlsplit(self.path), self.rfile.read(int(self.headers["Content-Length"] or 0))
        visit = Visit(self.hub, self.command, url.path, parse_qs(url.query), self.headers, body)
        plan = self.hub.arrived(visit)
        fault = plan.fault if plan else None
        if fault in (BLACK_HOLE, SLOW):
            self.hub.closed.wait(None if fault is BLACK_HOLE else plan.seconds)
        if self.hub.closed.is_set():
            self.close_connection = True
        elif isinstance(fault, int):
            self.send(Reply.of({"error": f"A planned {fault}"}, fault, **plan.headers), None)
        else:
            with self.hub.lock:
                reply = visit.serve()
            self.send(reply, fault)

    do_HEAD = do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815 - the names that http.server looks for

    def send(self, reply: Reply, fault: Fault | None) -> None:
        if reply.stream:
            self.send_stream(reply, fault)
            return
        body = b"" if self.command == "HEAD" else reply.body
        if fault is WRONG_BYTES:
            body = body.translate(bytes(reversed(range(256))))
        elif fault in (RESET, TRUNCATED):
            body = body[: len(body) // 2]
            self.close_connection = True
        if body or fault is not RESET:
            self.send_response(reply.status)
            for name, value in (reply.headers | {"Content-Length": str(len(reply.body))}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
        if fault is RESET:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            os.close(self.connection.detach())  # not `close`, before which the server would end the stream in peace

    def send_stream(self, reply: Reply, fault: Fault | None) -> None:
        """All there is to come; where it is cut, the first bit alone."""
        self.send_response(reply.status)
        for name, value in (reply.headers | {"Transfer-Encoding": "chunked"}).items():
            self.send_header(name, value)
        self.end_headers()
        for part in reply.stream:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            if fault in (RESET, TRUNCATED):
                self.close_connection = True
                return
        self.wfile.write(b"0\r\n\r\n")


def environment(hub_url: str, home: Path) -> dict[str, str]:
    """What a process needs in its environment to meet this Hub, and to leave alone what the machine has cached."""
    return {
        "HF_ENDPOINT": hub_url,
        "HF_TOKEN": TOKEN,
        "HF_HOME": str(home),
        "HF_HUB_CACHE": str(home / "hub"),
        "HF_HUB_OFFLINE": "0",
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    }


def patched(monkeypatch: pytest.MonkeyPatch, hub: LoopbackHub, home: Path) -> list[float]:
    """Does for this process what `environment` does for another; returns the seconds that retries would have slept.

    The client reads its environment when it is imported, but these constants at every call. With xet it would upload
    to another server than the Hub, and with telemetry on it asks the real Hub before its first request.
    """
    from huggingface_hub import constants, file_download, hf_api
    from huggingface_hub.utils import _http

    for name, value in {
        "ENDPOINT": hub.url,
        "HUGGINGFACE_CO_URL_TEMPLATE": hub.url + "/{repo_id}/resolve/{revision}/{filename}",
        "HF_HUB_CACHE": str(home / "hub"),
        "HF_HUB_OFFLINE": False,
        "HF_HUB_DISABLE_XET": True,
        "HF_HUB_DISABLE_TELEMETRY": True,
    }.items():
        monkeypatch.setattr(constants, name, value)
    monkeypatch.setattr(hf_api.api, "endpoint", hub.url)  # whose methods the functions of the package are
    monkeypatch.setenv("HF_TOKEN", hub.token)
    slept: list[float] = []
    for module in (_http, file_download):
        monkeypatch.setattr(module, "time", types.SimpleNamespace(sleep=slept.append))
    moment, clock = time.sleep, time.monotonic  # of whoever waits for a job, which goes on meanwhile
    monkeypatch.setattr(hf_api, "time", types.SimpleNamespace(sleep=lambda _: moment(0.01), monotonic=clock))
    return slept
