"""A small Hugging Face Hub for the tests: the part of its HTTP interface that the client uses here.

It keeps repositories and their commits in memory, stores large files by their SHA-256 as git LFS
does, checks what it is sent (token, owner, hashes, the card's YAML), and can be told to fail: to
cut uploads in the middle, to drop commits, to hold an upload until its sender is gone.
"""

import base64
import hashlib
import json
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import yaml

LARGE = (".safetensors", ".parquet", ".png")
TOKENS = {
    "hf_canwrite": {"name": "mine", "role": "write", "orgs": ["acme"]},
    "hf_canread": {"name": "mine", "role": "read", "orgs": ["acme"]},
    "hf_bobwrites": {"name": "others", "role": "write", "orgs": []},
}


class Refusal(Exception):
    """An answer that is no success."""

    def __init__(self, status: int, message: str, code: str = "") -> None:
        super().__init__(message)
        self.status, self.code = status, code


@dataclass
class Repo:
    """Commits, newest last; each maps paths to content."""

    private: bool
    commits: list[tuple[str, str, dict[str, bytes]]] = field(default_factory=list)

    @property
    def files(self) -> dict[str, bytes]:
        return self.commits[-1][2]

    @property
    def messages(self) -> list[str]:
        return [message for _, message, _ in self.commits]

    def commit(self, message: str, files: dict[str, bytes]) -> str:
        parent = self.commits[-1][0] if self.commits else ""
        tree = json.dumps({path: sha256(content) for path, content in sorted(files.items())})
        oid = hashlib.sha1(f"{parent}{message}{tree}".encode()).hexdigest()
        self.commits.append((oid, message, files))
        return oid

    def at(self, revision: str) -> tuple[str, dict[str, bytes]]:
        for oid, _, files in reversed(self.commits):
            if revision in ("main", oid):
                return oid, files
        raise Refusal(404, f"no revision {revision}", "RevisionNotFound")


class Server(ThreadingHTTPServer):
    """Threads that do not mind when a client hangs up."""

    daemon_threads = True

    def handle_error(self, *about: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(*about)


class HubServer:
    """The server and what it holds."""

    def __init__(self) -> None:
        self.repos: dict[tuple[str, str], Repo] = {}  # ("models" or "datasets", "owner/name")
        self.large: dict[str, bytes] = {}  # uploads by SHA-256, committed or not
        self.log: list[str] = []  # "METHOD /path" of every request
        self.lock = threading.Lock()
        self.be_kind()
        self._http = Server(("127.0.0.1", 0), Handler)
        self._http.hub = self  # type: ignore[attr-defined]
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()

    def be_kind(self) -> None:
        """Forget every fault that was asked for."""
        self.cut_uploads = 0  # so many of the next uploads break off in the middle
        self.trouble = 0  # the status of every answer, if not 0
        self.drop_commits = 0  # so many of the next commits are not answered, and not made
        self.hold_uploads = False  # the next uploads stop in the middle, until their sender is gone
        self.held = threading.Event()  # one of them has come so far

    def model(self, name: str) -> Repo:
        return self.repos["models", name]

    def dataset(self, name: str) -> Repo:
        return self.repos["datasets", name]


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def blob_id(path: str, content: bytes) -> str:
    """As the Hub names a file's content: git's blob id, or the SHA-256 of a large file."""
    if path.endswith(LARGE):
        return sha256(content)
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def file_entry(path: str, content: bytes) -> dict[str, Any]:
    entry = {
        "type": "file",
        "path": path,
        "size": len(content),
        "oid": hashlib.sha1(content).hexdigest(),
    }
    if path.endswith(LARGE):
        entry["lfs"] = {"oid": sha256(content), "size": len(content), "pointerSize": 134}
    else:
        entry["oid"] = blob_id(path, content)
    return entry


def tree(files: dict[str, bytes], folder: str, recursive: bool) -> list[dict[str, Any]]:
    """Files and folders below a folder."""
    prefix = f"{folder}/" if folder else ""
    inside = {path: content for path, content in files.items() if path.startswith(prefix)}
    if folder and not inside:
        raise Refusal(404, f"no folder {folder}", "EntryNotFound")
    folders = {
        path[: i + len(prefix)]
        for path in inside
        for i, letter in enumerate(path[len(prefix) :])
        if letter == "/"
    }
    entries = [{"type": "directory", "path": path, "size": 0, "oid": "0" * 40} for path in folders]
    entries += [file_entry(path, content) for path, content in inside.items()]
    return [entry for entry in entries if recursive or "/" not in entry["path"][len(prefix) :]]


def check_card(text: str, kind: str) -> None:
    """Refuse a README.md whose metadata the Hub would not understand."""
    parts = text.split("---\n", 2)
    if len(parts) != 3 or parts[0]:
        raise Refusal(400, "the card has no metadata")
    metadata = yaml.safe_load(parts[1])
    for model in metadata.get("model-index", []):
        if not model["name"] or not model["results"]:
            raise Refusal(400, '"model-index" needs a name and results')
        for result in model["results"]:
            if not {"task", "dataset", "metrics"} <= result.keys():
                raise Refusal(400, '"model-index[0].results" needs task, dataset and metrics')
            if any(not {"type", "value"} <= metric.keys() for metric in result["metrics"]):
                raise Refusal(400, "a metric needs a type and a value")
    if kind == "dataset" and not isinstance(metadata.get("configs", []), list):
        raise Refusal(400, '"configs" must be a list')


class Handler(BaseHTTPRequestHandler):
    """One request; the paths are the Hub's."""

    protocol_version = "HTTP/1.1"

    @property
    def hub(self) -> HubServer:
        return self.server.hub  # type: ignore[attr-defined,no-any-return]

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.serve()

    def do_HEAD(self) -> None:
        self.serve()

    def do_POST(self) -> None:
        self.serve()

    def do_PUT(self) -> None:
        self.serve()

    def serve(self) -> None:
        url = urlsplit(self.path)
        path, query = unquote(url.path).strip("/"), parse_qs(url.query)
        self.hub.log.append(f"{self.command} /{path}")
        try:
            if self.command == "PUT":
                self.take_upload(path.removeprefix("uploads/"))
                return
            body = b"".join(self.body())
            if self.hub.trouble:
                raise Refusal(self.hub.trouble, "out of order")
            if path.startswith("api/"):
                answer = self.api(path.removeprefix("api/"), query, body)
            elif path.endswith(".git/info/lfs/objects/batch"):
                answer = self.lfs_batch(path, json.loads(body))
            elif "/resolve/" in path:
                self.send_file(path)
                return
            else:
                raise Refusal(404, f"no page {path}")
            if answer is not None:
                self.send_json(200, answer)
        except Refusal as refusal:
            headers = {"X-Error-Message": str(refusal)}
            if refusal.code:
                headers["X-Error-Code"] = refusal.code
            self.send_json(refusal.status, {"error": str(refusal)}, headers)

    def api(self, path: str, query: dict[str, list[str]], body: bytes) -> Any:
        if path == "whoami-v2":
            user = self.user()
            return {
                "name": user["name"],
                "orgs": [{"name": org} for org in user["orgs"]],
                "auth": {"accessToken": {"role": user["role"]}},
            }
        if path == "repos/create":
            return self.create(json.loads(body))
        if path == "validate-yaml":
            content = json.loads(body)
            try:
                check_card(content["content"], content["repoType"])
            except Refusal as refusal:
                self.send_json(400, {"errors": [{"message": str(refusal)}], "warnings": []})
                return None
            return {"errors": [], "warnings": []}
        if path.count("/") < 2:
            raise Refusal(404, f"no page {path}")
        kind, owner, name, *rest = path.split("/")
        repo = self.repo(kind, f"{owner}/{name}", writes=bool(rest) and rest[0] in WRITES)
        what, revision, folder = (*rest, "", "main")[0], (*rest, "", "")[1], "/".join(rest[2:])
        oid, files = repo.at(revision or "main")
        if what in ("", "revision"):
            return {
                "id": f"{owner}/{name}",
                "sha": oid,
                "private": repo.private,
                "tags": [],
                "downloads": 0,
                "siblings": [{"rfilename": each} for each in files],
            }
        if what == "tree":
            return tree(files, folder, "recursive" in query and query["recursive"] != ["false"])
        if what == "paths-info":
            paths = parse_qs(body.decode())["paths"]
            return [file_entry(each, files[each]) for each in paths if each in files]
        if what == "preupload":
            return {"files": [upload_mode(each, files) for each in json.loads(body)["files"]]}
        if what == "commit":
            return self.commit(repo, f"{owner}/{name}", body)
        raise Refusal(404, f"no page {path}")

    def user(self) -> dict[str, Any]:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token not in TOKENS:
            raise Refusal(401, "Invalid credentials in Authorization header")
        return TOKENS[token]

    def may_write(self, owner: str) -> None:
        user = self.user()
        if user["role"] != "write" or owner not in (user["name"], *user["orgs"]):
            raise Refusal(403, f"You don't have the rights to write under the namespace {owner}")

    def repo(self, kind: str, name: str, writes: bool = False) -> Repo:
        found = self.hub.repos.get((kind, name))
        can_see = found is not None and not found.private
        if found is not None and found.private and self.headers.get("Authorization"):
            user = self.user()
            can_see = name.split("/")[0] in (user["name"], *user["orgs"])
        if found is None or not can_see:
            status = 404 if self.headers.get("Authorization") else 401
            raise Refusal(status, "Repository not found", "RepoNotFound")
        if writes:
            self.may_write(name.split("/")[0])
        return found

    def create(self, asked: dict[str, Any]) -> dict[str, str] | None:
        owner = asked.get("organization") or self.user()["name"]
        self.may_write(owner)
        kind = f"{asked.get('type') or 'model'}s"
        name = f"{owner}/{asked['name']}"
        address = {"url": f"{self.hub.url}/{'' if kind == 'models' else f'{kind}/'}{name}"}
        with self.hub.lock:
            if (kind, name) in self.hub.repos:
                self.send_json(409, {"error": "You already created this repo", **address})
                return None
            repo = Repo(asked.get("visibility") == "private" or bool(asked.get("private")))
            repo.commit("initial commit", {".gitattributes": b"* text=auto\n"})
            self.hub.repos[kind, name] = repo
        return address

    def lfs_batch(self, path: str, asked: dict[str, Any]) -> dict[str, Any]:
        name = path.removesuffix(".git/info/lfs/objects/batch")
        kind = "datasets" if name.startswith("datasets/") else "models"
        self.repo(kind, name.removeprefix("datasets/"), writes=True)
        objects = []
        for each in asked["objects"]:
            answer = {"oid": each["oid"], "size": each["size"]}
            if each["oid"] not in self.hub.large:
                href = f"{self.hub.url}/uploads/{each['oid']}"
                answer["actions"] = {"upload": {"href": href}}
            objects.append(answer)
        return {"transfer": "basic", "objects": objects}

    def take_upload(self, oid: str) -> None:
        """Store a large file under its hash; no token here, as with the Hub's signed addresses."""
        content, size = b"", int(self.headers["Content-Length"])
        fails = self.hub.hold_uploads
        with self.hub.lock:
            if self.hub.cut_uploads:
                self.hub.cut_uploads -= 1
                fails = True
        for part in self.body():
            content += part
            if fails and len(content) >= size // 2:
                break
        if fails:
            self.hub.held.set()
            while self.hub.hold_uploads and self.rfile.read(1):
                pass  # until the sender is gone
            self.close_connection = True
            return
        if sha256(content) != oid:
            raise Refusal(400, "the content does not have its hash")
        self.hub.large[oid] = content
        self.send_json(200, {})

    def commit(self, repo: Repo, name: str, body: bytes) -> dict[str, Any] | None:
        with self.hub.lock:
            if self.hub.drop_commits:
                self.hub.drop_commits -= 1
                self.close_connection = True
                return None
            files, message = dict(repo.files), ""
            for line in body.splitlines():
                entry = json.loads(line)
                key, value = entry["key"], entry["value"]
                if key == "header":
                    message = value["summary"]
                elif key == "file":
                    files[value["path"]] = base64.b64decode(value["content"])
                elif key == "lfsFile":
                    if value["oid"] not in self.hub.large:
                        raise Refusal(400, f"{value['path']} was not uploaded")
                    files[value["path"]] = self.hub.large[value["oid"]]
                elif key == "deletedFile":
                    del files[value["path"]]
                else:
                    raise Refusal(400, f"cannot {key}")
            oid = repo.commit(message, files)
        return {"commitUrl": f"{self.hub.url}/{name}/commit/{oid}", "commitOid": oid}

    def send_file(self, path: str) -> None:
        name, rest = path.split("/resolve/")
        revision, file = rest.split("/", 1)
        kind = "datasets" if name.startswith("datasets/") else "models"
        oid, files = self.repo(kind, name.removeprefix("datasets/")).at(revision)
        if file not in files:
            raise Refusal(404, f"no file {file}", "EntryNotFound")
        headers = {"ETag": f'"{blob_id(file, files[file])}"', "X-Repo-Commit": oid}
        self.send(200, files[file], {**headers, "Content-Type": "application/octet-stream"})

    def send_json(self, status: int, content: Any, headers: dict[str, str] | None = None) -> None:
        more = {"Content-Type": "application/json", **(headers or {})}
        self.send(status, json.dumps(content).encode(), more)

    def send(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def body(self) -> Iterator[bytes]:
        """What was sent, piece by piece."""
        left = int(self.headers.get("Content-Length") or 0)
        while left:
            piece = self.rfile.read1(min(left, 1 << 14))  # type: ignore[attr-defined]
            if not piece:
                return
            left -= len(piece)
            yield piece


WRITES = ("preupload", "commit")


def upload_mode(asked: dict[str, Any], files: dict[str, bytes]) -> dict[str, Any]:
    """How a file is to be sent, and what lies there now."""
    path = asked["path"]
    return {
        "path": path,
        "uploadMode": "lfs" if path.endswith(LARGE) else "regular",
        "shouldIgnore": False,
        "oid": blob_id(path, files[path]) if path in files else None,
    }
