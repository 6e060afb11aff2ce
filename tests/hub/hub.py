#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An imitated Hugging Face Hub for tests, standard library only.

  hub.py --dir DIR [--fixture NAME]... [--repo KIND:ORG/NAME=PATH]...
         [--token TOKEN] [--page ENTRIES] [KEY=VALUE]...

Three servers on loopback: the Hub, the CDN it redirects to, and another Hub
that nobody should be led to. DIR gets `ports` (their URLs, a line each), and
`log`: a line for every request,

  hub|cdn|other METHOD TARGET STATUS BYTES range=... auth=yes|no route=...

KEY=VALUE are the settings below; /_/ on the Hub changes them, and faults, and
repositories, while it runs:

  POST /_/set {KEY: VALUE}         GET /_/counters
  POST /_/faults [RULE, ...]       see faults.py
  POST /_/push {"repo": "KIND:ORG/NAME", "branch", "files": {PATH: TEXT or
               {"size", "seed"}}, "delete": [PATH]}
  POST /_/repo {"repo", "private"|"gated"|"disabled": ..., "rename": NEW,
               "vanish": COMMIT, "drop": REF}
"""
import argparse
import base64
import gzip
import http.server
import json
import os
import re
import socket
import struct
import sys
import threading
import time
import urllib.parse

import fixtures
from faults import Faults
from repos import PREFIX, File, Held, Stamped, Store, from_directory

SETTINGS = {
    "small": "direct",  # or cache: 307 to /api/resolve-cache
    "lfs": "cdn",       # or xet: with its headers; direct: 200 from the Hub
    "sign": "expires",  # or amz, opaque: form of the signed URL
    "seconds": 3600,    # a signed URL says that it lives so long
    "grace": 0,         # and lives so much longer
    "uses": 0,          # and serves so many requests; 0: any
    "page": 1000,       # entries of a listing
    "limit_api": 0,     # requests in a window; 0: no limit
    "limit_resolvers": 0,
    "window": 300,
    "retry_after": 0,   # Retry-After of a 429 without RateLimit
    "cdn_url": "",      # another CDN: it has the files by their paths
    "gated_api": False,  # gated repositories refuse listings too
}
STEP = 256 << 10
SPECIAL = re.compile(r"(refs/(?:pr|convert)/[^/]+)(?:/(.*))?$")
KINDS = {"models": "model", "datasets": "dataset", "spaces": "space"}
EXPOSED = ("X-Repo-Commit,X-Request-Id,X-Error-Code,X-Error-Message,"
           "X-Total-Count,ETag,Link,Accept-Ranges,Content-Range,"
           "X-Linked-Size,X-Linked-ETag,X-Xet-Hash")


class Refused(Exception):
    def __init__(self, status, code, message, **headers):
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.headers = headers


class Hub:
    """What the three servers share."""

    def __init__(self, directory, token):
        self.directory = directory
        self.token = token
        self.settings = dict(SETTINGS)
        self.store = Store()
        self.faults = Faults()
        self.lock = threading.Lock()
        # Tests empty it: each line goes to the end.
        self.log = open(os.path.join(directory, "log"), "a", buffering=1)
        self.counters = {}
        self.running = {}
        self.grants = {}
        self.windows = {}
        self.urls = {}

    def count(self, name, amount=1):
        with self.lock:
            self.counters[name] = self.counters.get(name, 0) + amount

    def enter(self, route, step):
        with self.lock:
            now = self.running[route] = self.running.get(route, 0) + step
            name = "max_concurrent." + route
            self.counters[name] = max(self.counters.get(name, 0), now)

    def quota(self, resource):
        """(left, seconds to the next window, quota)"""
        quota = self.settings["limit_" + resource]
        now = time.monotonic()
        with self.lock:
            start, used = self.windows.get(resource, (now, 0))
            if now - start >= self.settings["window"]:
                start, used = now, 0
            used += 1
            self.windows[resource] = start, used
        left = max(quota - used, 0) if quota else 1000
        rest = int(start + self.settings["window"] - now)
        return (-1 if quota and used > quota else left), rest, quota or 1000

    def sign(self, file, path):
        """A location on the CDN for the file."""
        number = "%s%d" % (file.etag[:16], len(self.grants))
        seconds = self.settings["seconds"]
        with self.lock:
            self.grants[number] = {"file": file, "path": path, "used": 0,
                                   "end": time.time() + seconds +
                                   self.settings["grace"]}
        if self.settings["sign"] == "amz":
            query = {"X-Amz-Algorithm": "AWS4-HMAC-SHA256",
                     "X-Amz-Date": time.strftime("%Y%m%dT%H%M%SZ",
                                                 time.gmtime()),
                     "X-Amz-Expires": str(int(seconds)),
                     "X-Amz-Signature": number}
        else:
            query = {"Policy": "eyJTdGF0ZW1lbnQiOltdfQ__",
                     "Signature": number, "Key-Pair-Id": "K2FPYV99P2N66Q"}
            if self.settings["sign"] == "expires":
                query["Expires"] = str(int(time.time() + seconds))
        place = "%s/xet-bridge-us/%s/%s" % (self.urls["cdn"], number[:8],
                                            file.etag)
        if self.settings["cdn_url"]:
            place = "%s/%s" % (self.settings["cdn_url"],
                               urllib.parse.quote(path))
        return place + "?" + urllib.parse.urlencode(query)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 64 << 10
    disable_nagle_algorithm = True
    timeout = 120

    def log_message(self, *args):
        pass

    # ---- answering

    def answer(self, status, headers, body=b"", reader=None, length=None):
        """body, or length bytes of reader(offset, count)."""
        hit = self.hit
        if reader is None:
            reader = lambda at, count: body[at:at + count]
            length = len(body)
        self.status = status
        headers = {"Content-Length": str(length), **headers}
        if "start" in hit:
            time.sleep(hit["start"]["seconds"])
        sent = length
        if "short" in hit:
            sent = length // 2
            headers["Content-Length"] = str(sent)
        chunked = headers.get("Transfer-Encoding") == "chunked"
        if chunked:
            headers.pop("Content-Length")
        if status in (204, 304):
            headers.pop("Content-Length")
            sent = 0
        self.send_response_only(status)
        self.send_header("Date", self.date_time_string())
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if "cut" in hit:
            sent = length // 2
        self.body(reader, sent, chunked)
        if "cut" in hit:
            self.close_connection = True

    def body(self, reader, length, chunked):
        at = 0
        stops = sorted(self.hit[name].get("after", 0)
                       for name in ("reset", "stall") if name in self.hit)
        while at < length:
            count = min(STEP, length - at)
            if stops and at < stops[0]:
                count = min(count, stops[0] - at)
            if stops and at == stops[0]:
                self.stop()
                stops.pop(0)
            data = reader(at, count)
            if chunked:
                data = b"%x\r\n%s\r\n" % (len(data), data)
            # What is short stays in the buffer until the log has its line.
            self.wfile.write(data[:-1])
            self.wfile.write(data[-1:])
            at += count
            self.sent = at
            if "slow" in self.hit:
                self.wfile.flush()
                time.sleep(count / self.hit["slow"]["rate"])
        if stops and length:
            self.stop()
        if chunked:
            self.wfile.write(b"0\r\n\r\n")

    def stop(self):
        self.wfile.flush()
        if "stall" in self.hit:
            time.sleep(self.hit["stall"]["seconds"])
            return
        # Unread or not, the peer is told to forget the connection.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                   struct.pack("ii", 1, 0))
        self.connection.close()
        raise ConnectionResetError

    def json(self, value, **headers):
        self.answer(200, {"Content-Type": "application/json; charset=utf-8",
                          **self.common, **headers},
                    json.dumps(value).encode())

    def refuse(self, refused):
        headers = {"Content-Type": "application/json; charset=utf-8",
                   **self.common, **refused.headers}
        if refused.code:
            headers["X-Error-Code"] = refused.code
        headers["X-Error-Message"] = refused.message
        self.answer(refused.status, headers,
                    json.dumps({"error": refused.message}).encode())

    # ---- receiving

    def do(self):
        self.hit, self.common, self.route = {}, {}, "-"
        self.status, self.sent, self.content = 0, 0, b""
        length = int(self.headers.get("Content-Length") or 0)
        if length:
            self.content = self.rfile.read(length)
        try:
            self.dispatch()
        except Refused as refused:
            self.refuse(refused)
        except (ConnectionError, TimeoutError, ValueError) as error:
            if isinstance(error, ValueError) and not self.wfile.closed:
                self.answer(400, {}, str(error).encode())
            self.close_connection = True
        finally:
            # Before the last bytes go: who has them may look into the log.
            self.note()
        try:
            self.wfile.flush()
        except (ConnectionError, TimeoutError, ValueError):
            self.close_connection = True

    do_GET = do_HEAD = do_POST = do

    def note(self):
        hub = self.server.hub
        if self.path.startswith("/_/"):
            return
        auth = "yes" if self.headers.get("Authorization") else "no"
        hub.log.write("%s %s %s %d %d range=%s auth=%s route=%s\n" % (
            self.server.role, self.command, self.path, self.status, self.sent,
            self.headers.get("Range", "-"), auth, self.route))
        for name, amount in (("requests", 1), ("bytes", self.sent)):
            hub.count("%s.%s.%s" % (name, self.server.role, self.route),
                      amount)

    def dispatch(self):
        hub = self.server.hub
        path, _, query = self.path.partition("?")
        self.query = urllib.parse.parse_qs(query, keep_blank_values=True)
        if path.startswith("/_/"):
            return self.control(path[3:])
        if self.server.role == "cdn":
            return self.cdn(path)
        self.common = {"X-Request-Id": "Root=1-%x" % time.time_ns(),
                       "X-Powered-By": "imitated-hub",
                       "Access-Control-Expose-Headers": EXPOSED}
        self.limits("api" if path.startswith("/api/") else "resolvers")
        hub.count("requests." + self.server.role)
        parts = path.strip("/").split("/")
        if parts[0] == "api":
            return self.api(parts[1:])
        return self.files(parts)

    def limits(self, resource):
        hub = self.server.hub
        left, rest, quota = hub.quota(resource)
        self.common["RateLimit"] = '"%s";r=%d;t=%d' % (resource, max(left, 0),
                                                       rest)
        self.common["RateLimit-Policy"] = '"fixed window";"%s";q=%d;w=%d' % (
            resource, quota, hub.settings["window"])
        if left < 0:
            self.route = "limited"
            if hub.settings["retry_after"]:
                for name in ("RateLimit", "RateLimit-Policy"):
                    del self.common[name]
                self.common["Retry-After"] = str(hub.settings["retry_after"])
            raise Refused(429, None, "Too many requests. Please retry later.")

    def enter(self, route, path):
        """Which route it is; answers and says True if a fault did it all."""
        self.route = route
        self.hit = self.server.hub.faults.hit(route, path)
        if "status" in self.hit:
            rule = self.hit["status"]
            headers = {"Content-Type": rule.get("type", "text/html"),
                       **self.common, **rule.get("headers", {})}
            if "code" in rule:
                headers["X-Error-Code"] = rule["code"]
            self.answer(rule["status"], headers,
                        rule.get("body", "trouble").encode())
        elif "page" in self.hit:
            self.answer(200, {"Content-Type": "text/html", **self.common},
                        b"<html><body>Please try again later.</body></html>")
        elif "no-head" in self.hit and self.command == "HEAD":
            self.answer(405, {**self.common, "Allow": "GET"})
        elif "mirror" in self.hit and self.server.role == "hub":
            self.answer(308, {**self.common, "Location":
                              self.server.hub.urls["other"] + self.path})
        else:
            return False
        return True

    # ---- who may

    def find(self, kind, name):
        """The repository, or a refusal, or a redirect (None)."""
        hub = self.server.hub
        token = self.headers.get("Authorization", "")
        known = bool(hub.token) and token == "Bearer " + hub.token
        if token and not known:
            raise Refused(401, None,
                          "Invalid credentials in Authorization header")
        repo, new = hub.store.find(kind, name)
        if repo is None or (repo.private and not known):
            raise Refused(404 if token else 401, "RepoNotFound",
                          "Repository not found")
        if repo.disabled:
            raise Refused(403, None, "Access to this resource is disabled.")
        self.known = known
        if new:
            # Only the first occurrence is the name.
            self.answer(307, {**self.common,
                              "Location": self.path.replace(name, new, 1)})
            return None
        return repo

    def gate(self, repo):
        if not repo.gated or self.known:
            return
        if self.headers.get("Authorization"):
            raise Refused(403, "GatedRepo",
                          "Access to model %s is restricted and you are not "
                          "in the authorized list." % repo.name)
        raise Refused(401, "GatedRepo",
                      "Access to model %s is restricted. You must have access "
                      "to it and be authenticated to access it. Please log "
                      "in." % repo.name)

    @staticmethod
    def split(parts, words):
        """[ORG,] NAME, WORD, REST...: (name, word, rest)"""
        for at in (1, 2):
            if len(parts) > at and parts[at] in words:
                return "/".join(parts[:at]), parts[at], parts[at + 1:]
        if len(parts) in (1, 2) and "" not in words:
            return "/".join(parts), None, []
        raise Refused(404, None, "Sorry, we can't find the page you are "
                                 "looking for.")

    @staticmethod
    def revision(rest):
        """(revision, path): encoded as one part or not."""
        raw = "/".join(rest)
        special = SPECIAL.match(urllib.parse.unquote(raw)) \
            if raw.startswith("refs/") else None
        if special:
            return special.group(1), special.group(2) or ""
        revision, _, path = raw.partition("/")
        return urllib.parse.unquote(revision), urllib.parse.unquote(path)

    @staticmethod
    def commit(repo, revision):
        commit = repo.resolve(revision)
        if commit is None:
            raise Refused(404, "RevisionNotFound",
                          "Invalid rev id: " + revision)
        return commit

    # ---- api

    def api(self, parts):
        if parts[0] == "whoami-v2":
            if self.enter("whoami", ""):
                return None
            if not self.headers.get("Authorization"):
                raise Refused(401, None, "Invalid username or password.")
            return self.json({"type": "user", "name": "tester", "orgs": []})
        if parts[0] == "resolve-cache" and len(parts) > 1:
            return self.resolve_cache(parts[1:])
        if parts[0] not in KINDS:
            raise Refused(404, None, "Not found")
        kind = KINDS[parts[0]]
        name, word, rest = self.split(
            parts[1:], ("revision", "tree", "paths-info", "refs", "commits",
                        "xet-read-token"))
        route = {None: "info", "revision": "info",
                 "xet-read-token": "xet-token"}.get(word, word)
        if self.enter(route, urllib.parse.unquote(self.path)):
            return None
        repo = self.find(kind, name)
        if repo is None:
            return None
        if self.server.hub.settings["gated_api"]:
            self.gate(repo)
        if word == "refs":
            return self.refs(repo)
        revision, path = self.revision(rest) if rest else ("main", "")
        if word is None and "revision" in self.query:
            revision = self.query["revision"][0]
        commit = self.commit(repo, revision)
        return {"info": self.info, "tree": self.tree, "commits": self.commits,
                "paths-info": self.paths_info, "xet-token": self.xet_token,
                }[route](repo, commit, path)

    def truth(self, name):
        return self.query.get(name, [""])[0].lower() in ("1", "true", "on",
                                                         "yes")

    def info(self, repo, commit, _path):
        blobs = self.truth("blobs")
        siblings = []
        for path, file in sorted(commit.files.items()):
            item = {"rfilename": path}
            if blobs:
                item.update(size=file.size, blobId=file.oid)
                if file.lfs:
                    item["lfs"] = {"sha256": file.etag, "size": file.size,
                                   "pointerSize": 134}
            siblings.append(item)
        value = {"_id": "64c0ffee64c0ffee64c0ffee", "id": repo.name,
                 "author": repo.name.split("/")[0], "sha": commit.id,
                 "lastModified": commit.stamp(),
                 "createdAt": "2026-01-02T03:04:05.000Z",
                 "private": repo.private, "gated": repo.gated,
                 "disabled": repo.disabled, "downloads": 7, "likes": 1,
                 "tags": ["region:us"], "siblings": siblings}
        if repo.kind == "model":
            value["modelId"] = repo.name
        expand = self.query.get("expand")
        if expand:
            value = {key: value[key] for key in ("_id", "id", *expand)
                     if key in value}
        self.json(value)

    def refs(self, repo):
        groups = {"branches": [], "converts": [], "tags": []}
        if self.truth("include_prs"):
            groups["pullRequests"] = []
        names = {"heads": "branches", "convert": "converts", "tags": "tags",
                 "pr": "pullRequests"}
        for ref, commit in sorted(repo.refs.items()):
            _, group, name = ref.split("/", 2)
            if names[group] in groups:
                groups[names[group]].append(
                    {"name": name, "ref": ref, "targetCommit": commit})
        self.json(groups)

    def commits(self, repo, commit, _path):
        known = repo.history[:repo.history.index(commit.id) + 1]
        self.json([{"id": id, "title": repo.commits[id].title, "message": "",
                    "authors": [{"user": "tester"}],
                    "date": repo.commits[id].stamp()}
                   for id in reversed(known)])

    def entry(self, commit, path, file, expand):
        item = {"type": "file", "oid": file.oid, "size": file.size,
                "path": path}
        if file.lfs:
            item["lfs"] = {"oid": file.etag, "size": file.size,
                           "pointerSize": 134}
            if self.server.hub.settings["lfs"] == "xet":
                item["xetHash"] = file.xet_hash
        if "sizes" in self.hit:
            add = self.hit["sizes"]["add"]
            item["size"] += add
            if "lfs" in item:
                item["lfs"]["size"] += add
        if expand:
            item["lastCommit"] = {"id": commit.id, "title": commit.title,
                                  "date": commit.stamp()}
            item["securityFileStatus"] = {
                "status": "safe", "avScan": {"status": "safe"},
                "pickleImportScan": None, "jFrogScan": None,
                "protectAiScan": None}
        return item

    def entries(self, commit, below, recursive, expand):
        prefix = below + "/" if below else ""
        items = [(path, {"type": "directory", "oid": oid, "size": 0,
                         "path": path})
                 for path, oid in commit.directories().items()]
        items += [(path, self.entry(commit, path, file, expand))
                  for path, file in commit.files.items()]
        items = [(path, item) for path, item in items
                 if path.startswith(prefix) and path != below and
                 (recursive or "/" not in path[len(prefix):])]
        items.sort(key=lambda pair: (pair[1]["type"], pair[0]))
        return [item for _, item in items]

    def tree(self, _repo, commit, path):
        expand = self.truth("expand")
        items = self.entries(commit, path.strip("/"), self.truth("recursive"),
                             expand)
        if path and not items:
            raise Refused(404, "EntryNotFound", "Entry not found",
                          **{"X-Repo-Commit": commit.id})
        size = self.server.hub.settings["page"]
        if expand:
            size = min(size, 50)
        if "limit" in self.query:
            size = min(size, int(self.query["limit"][0]))
        start = 0
        if "cursor" in self.query:
            start = int(base64.urlsafe_b64decode(
                self.query["cursor"][0]).split(b":")[1])
        page = items[start:start + size]
        if "entries" in self.hit and start == 0:
            page = page + self.hit["entries"]["entries"]
        headers = {}
        if start + size < len(items):
            headers = self.link(start, start + size)
        self.json(page, **headers)

    def link(self, start, next_start):
        how = self.hit.get("link", {}).get("link", "same")
        if how == "none":
            return {}
        at = start if how == "loop" else next_start
        query = {key: values[0] for key, values in self.query.items()}
        query["cursor"] = base64.urlsafe_b64encode(b"page:%d" % at).decode()
        if how == "reorder":
            query = dict(reversed(query.items()))
        host = "http://" + self.headers["Host"]
        if how == "other":
            host = self.server.hub.urls["other"]
        if how == "relative":
            host = ""
        return {"Link": '<%s%s?%s>; rel="next"' % (
            host, self.path.partition("?")[0], urllib.parse.urlencode(query))}

    def paths_info(self, _repo, commit, _path):
        if "json" in self.headers.get("Content-Type", ""):
            asked = json.loads(self.content or b"{}")
            paths, expand = asked.get("paths", []), asked.get("expand", False)
        else:
            asked = urllib.parse.parse_qs(self.content.decode())
            paths = asked.get("paths", [])
            expand = asked.get("expand", [""])[0].lower() in ("1", "true")
        directories = commit.directories()
        found = []
        for path in paths:
            if path in commit.files:
                found.append(self.entry(commit, path, commit.files[path],
                                        expand))
            elif path in directories:
                found.append({"type": "directory", "oid": directories[path],
                              "size": 0, "path": path})
        self.json(found)

    def xet_token(self, _repo, _commit, _path):
        self.json({"accessToken": "xet-token", "exp": int(time.time()) + 60,
                   "casUrl": self.server.hub.urls["cdn"] + "/cas"})

    # ---- files

    def files(self, parts):
        kind = KINDS.get(parts[0], "model")
        if kind == "model":
            name, word, rest = self.split(parts, ("resolve", "raw", ""))
        else:
            name, word, rest = self.split(parts[1:], ("resolve", "raw", ""))
        if self.enter(word, urllib.parse.unquote(self.path)):
            return None
        repo = self.find(kind, name)
        if repo is None:
            return None
        self.gate(repo)
        if "location" in self.hit:
            return self.answer(302, {**self.common, "Location":
                                     self.hit["location"]["location"]})
        if "chain" in self.hit:
            done = int(self.query.get("hop", ["0"])[0])
            if done < self.hit["chain"]["count"]:
                return self.answer(302, {
                    **self.common, "Location": "%s?hop=%d" % (
                        self.path.partition("?")[0], done + 1)})
        revision, path = self.revision(rest)
        commit = self.commit(repo, revision)
        file = commit.files.get(path)
        if file is None:
            raise Refused(404, "EntryNotFound", "Entry not found",
                          **{"X-Repo-Commit": commit.id})
        if word == "raw":
            content = file.content
            if file.lfs:
                content = Held(file.pointer(file.etag))
            return self.content_of(content, path, {**self.common})
        return self.resolve(repo, commit, path, file)

    def resolve(self, repo, commit, path, file):
        hub = self.server.hub
        headers = {**self.common, "X-Repo-Commit": commit.id,
                   "Accept-Ranges": "bytes"}
        lie = self.hit.get("lie", {})
        if file.lfs and hub.settings["lfs"] != "direct":
            headers.update({
                "X-Linked-Size": str(lie.get("size", file.size)),
                "X-Linked-ETag": '"%s"' % lie.get("etag", file.etag),
                "Cache-Control": "no-cache",
                "Content-Type": "text/plain; charset=utf-8",
                "Location": hub.sign(file, path)})
            if hub.settings["lfs"] == "xet":
                base = "http://%s/api/%ss/%s" % (self.headers["Host"],
                                                 repo.kind, repo.name)
                headers["X-Xet-Hash"] = file.xet_hash
                headers["Link"] = (
                    '<%s/xet-read-token/%s>; rel="xet-auth", '
                    '<%s/cas/v1/reconstructions/%s>; '
                    'rel="xet-reconstruction-info"' %
                    (base, commit.id, hub.urls["cdn"], file.xet_hash))
            return self.answer(302, headers, b"Found. Redirecting to it\n")
        if hub.settings["small"] == "cache":
            target = "/api/resolve-cache/%ss/%s/%s/%s?%s" % (
                repo.kind, repo.name, commit.id,
                urllib.parse.quote(path, safe="/~"),
                urllib.parse.urlencode({"download": "true", "etag":
                                        '"%s"' % file.etag}))
            return self.answer(307, {**self.common, "Location": target})
        return self.small(commit, path, file, headers)

    def small(self, commit, path, file, headers):
        name = urllib.parse.quote(path.rsplit("/", 1)[-1])
        lie = self.hit.get("lie", {})
        headers.update({
            "X-Repo-Commit": commit.id, "Accept-Ranges": "bytes",
            "ETag": '"%s"' % lie.get("etag", file.etag),
            "Content-Disposition":
                "inline; filename*=UTF-8''%s; filename=\"%s\";" % (name,
                                                                   name)})
        if file.lfs:
            headers["X-Linked-Size"] = str(file.size)
            headers["X-Linked-ETag"] = '"%s"' % file.etag
        if self.headers.get("If-None-Match") == headers["ETag"]:
            return self.answer(304, headers)
        return self.content_of(file.content, path, headers)

    def resolve_cache(self, parts):
        kind = KINDS.get(parts[0], "model")
        if self.enter("resolve-cache", urllib.parse.unquote(self.path)):
            return None
        for at in (2, 3):
            name = "/".join(parts[1:at])
            repo, _ = self.server.hub.store.find(kind, name)
            if repo:
                break
        repo = self.find(kind, name)
        self.gate(repo)
        commit = self.commit(repo, parts[at])
        path = urllib.parse.unquote("/".join(parts[at + 1:]))
        if path not in commit.files:
            raise Refused(404, "EntryNotFound", "Entry not found",
                          **{"X-Repo-Commit": commit.id})
        return self.small(commit, path, commit.files[path],
                          {**self.common})

    # ---- bytes

    def asked_range(self, size):
        """(first, last), None without a range, or () when there is none."""
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)",
                             self.headers.get("Range", ""))
        if not asked or asked.group(0) == "bytes=-":
            return None
        first, last = asked.groups()
        if not first:
            first = max(size - int(last), 0)
            last = size - 1
        else:
            first = int(first)
            last = min(int(last), size - 1) if last else size - 1
        return (first, last) if first < size and first <= last else ()

    def content_of(self, content, path, headers):
        size = content.size
        hit = self.hit
        headers.setdefault("Content-Type", "application/octet-stream")
        asked = self.asked_range(size)
        if "bogus-416" in hit:
            return self.answer(416, {**headers,
                                     "Content-Range": "bytes */177"})
        if "invalid-range" in hit:
            return self.answer(403, headers, b"Auth failed: invalid range")
        if "gzip" in hit:
            headers.update({"Content-Encoding": "gzip",
                            "Transfer-Encoding": "chunked"})
            return self.answer(200, headers,
                               gzip.compress(content.read(0, size)))
        if "no-length" in hit:
            headers["Transfer-Encoding"] = "chunked"
            asked = None
        if "ignore-range" in hit:
            asked = None
        if asked == ():
            return self.answer(416, {**headers,
                                     "Content-Range": "bytes */%d" % size})
        first, last = asked or (0, size - 1)
        if asked:
            shift = last + 1 - first if "wrong-range" in hit else 0
            headers["Content-Range"] = "bytes %d-%d/%d" % (
                first + shift, last + shift, size + ("wrong-total" in hit))

        def read(at, count):
            data = content.read(first + at, count)
            flip = hit["flip"]["offset"] - first - at if "flip" in hit else -1
            if 0 <= flip < len(data):
                data = bytearray(data)
                data[flip] ^= 1
            return bytes(data)
        return self.answer(206 if asked else 200, headers, reader=read,
                           length=last + 1 - first)

    @staticmethod
    def xml(code, message):
        return ('<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>%s'
                '</Code><Message>%s</Message></Error>' %
                (code, message)).encode()

    def cdn(self, path):
        hub = self.server.hub
        number = (self.query.get("Signature") or
                  self.query.get("X-Amz-Signature") or [""])[0]
        grant = hub.grants.get(number)
        if self.enter("cdn", grant["path"] if grant else path):
            return None
        headers = {"Content-Type": "application/xml"}
        if self.headers.get("Authorization"):
            hub.count("leaks")
            return self.answer(400, headers, self.xml(
                "InvalidArgument", "Only one auth mechanism allowed"))
        if grant is None:
            return self.answer(403, headers,
                               self.xml("AccessDenied", "Access Denied"))
        with hub.lock:
            grant["used"] += 1
            over = time.time() >= grant["end"] or \
                0 < hub.settings["uses"] < grant["used"]
        if over or "expired" in self.hit:
            return self.answer(403, headers, self.xml("AccessDenied",
                                                      "Request has expired"))
        hub.enter("cdn", 1)
        try:
            # Its own tag: never the file's digest.
            tag = grant["file"].xet_hash[::-1]
            return self.content_of(grant["file"].content, grant["path"],
                                   {"ETag": '"%s"' % tag,
                                    "Accept-Ranges": "bytes"})
        finally:
            hub.enter("cdn", -1)

    # ---- control

    def control(self, word):
        hub = self.server.hub
        if word == "counters":
            with hub.lock:
                return self.json(hub.counters)
        asked = json.loads(self.content)
        reply = {}
        if word == "set":
            hub.settings.update(known(asked))
        elif word == "faults":
            hub.faults.set(asked)
        elif word == "push":
            repo, _ = self.named(asked)
            files = {path: File(path, Held(value.encode())
                                if isinstance(value, str) else
                                Stamped(value["size"], value["seed"]))
                     for path, value in asked.get("files", {}).items()}
            reply = {"commit": repo.push(files, asked.get("branch", "main"),
                                         delete=asked.get("delete", ()))}
        elif word == "repo":
            self.change(asked)
        else:
            raise Refused(404, None, "no such control")
        return self.json(reply)

    def named(self, asked):
        kind, _, name = asked["repo"].partition(":")
        return self.server.hub.store.repos[kind, name], (kind, name)

    def change(self, asked):
        store = self.server.hub.store
        repo, key = self.named(asked)
        for name in ("private", "gated", "disabled"):
            if name in asked:
                setattr(repo, name, asked[name])
        if "rename" in asked:
            store.repos[key[0], asked["rename"]] = store.repos.pop(key)
            repo.name = store.aliases[key] = asked["rename"]
        if "vanish" in asked:
            repo.vanished.add(asked["vanish"])
        if "drop" in asked:
            del repo.refs[asked["drop"]]


def known(settings):
    for name, value in settings.items():
        if name not in SETTINGS:
            raise ValueError("no setting %r" % name)
        settings[name] = type(SETTINGS[name])(value)
    return settings


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, hub, role):
        super().__init__(("127.0.0.1", 0), Handler)
        self.hub = hub
        self.role = role
        hub.urls[role] = "http://127.0.0.1:%d" % self.server_port

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dir", required=True)
    parser.add_argument("--fixture", action="append", default=[],
                        choices=sorted(fixtures.ALL))
    parser.add_argument("--repo", action="append", default=[])
    parser.add_argument("--token")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    return parser.parse_args()


def main():
    args = arguments()
    hub = Hub(args.dir, args.token)
    hub.settings.update(known(dict(pair.split("=", 1)
                                   for pair in args.settings)))
    for name in args.fixture:
        fixtures.ALL[name](hub.store)
    for text in args.repo:
        kind, _, rest = text.partition(":")
        name, _, path = rest.partition("=")
        if kind not in PREFIX:
            sys.exit("hub.py: no kind '%s'" % kind)
        hub.store.add(kind, name).push(from_directory(path))
    servers = [Server(hub, role) for role in ("hub", "cdn", "other")]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    ports = os.path.join(args.dir, "ports")
    with open(ports + ".new", "w") as file:
        file.write("".join(hub.urls[server.role] + "\n"
                           for server in servers))
    os.rename(ports + ".new", ports)
    threading.Event().wait()


if __name__ == "__main__":
    main()
