# SPDX-License-Identifier: Apache-2.0
"""What goes wrong, and when.

A rule is an object with a fault, and where it applies:

  {"fault": "short", "route": "cdn", "match": "model-", "skip": 1, "times": 2}

route: one of ROUTES, or absent for all; match: part of the path asked for
(for the CDN: of the file's path in its repository); skip: so many matching
requests are spared first; times: then so many are hit (absent: all). More
keys belong to the fault.
"""
import threading

ROUTES = ("info", "tree", "paths-info", "refs", "commits", "resolve",
          "resolve-cache", "raw", "xet-token", "whoami", "cdn")

FAULTS = {
    # any route
    "status": "answer `status` with `body`, `type`, `code` (X-Error-Code), "
              "`headers`",
    "reset": "break the connection after `after` bytes of the body",
    "stall": "stop for `seconds` after `after` bytes of the body",
    "slow": "`rate` bytes a second",
    "start": "wait `seconds` before the answer",
    "short": "promise and send only the first half of the body",
    "cut": "promise the body, send half of it and close",
    "page": "answer 200 with a page of HTML",
    # data
    "ignore-range": "200 and the whole body",
    "wrong-range": "206 with a Content-Range that is one block further",
    "wrong-total": "206 with a total one byte larger",
    "flip": "flip the byte at `offset` of the file",
    "gzip": "Content-Encoding: gzip, chunked, no length, whatever was asked",
    "no-length": "chunked, without Content-Length or Content-Range",
    "bogus-416": "416 with Content-Range: bytes */177",
    "invalid-range": "403 Auth failed: invalid range",
    "expired": "403 as if the signature had expired",
    "no-head": "405 to HEAD",
    # resolve
    "location": "302 to `location` as it stands",
    "chain": "`count` redirects to itself before the answer",
    "mirror": "308 to the other Hub",
    "lie": "`etag`, `size` instead of the true ones",
    # tree
    "link": "the next page's Link is `other` (on the other host), `relative`, "
            "`loop`, `reorder` or `none`",
    "entries": "add `entries` to the first page",
    "sizes": "list every size plus `add`",
}


class Faults:
    def __init__(self):
        self.lock = threading.Lock()
        self.rules = []

    def set(self, rules):
        for rule in rules:
            if rule.get("fault") not in FAULTS:
                raise ValueError("no fault %r" % rule.get("fault"))
            if rule.get("route", "cdn") not in ROUTES:
                raise ValueError("no route %r" % rule.get("route"))
        with self.lock:
            self.rules = [dict(rule, seen=0) for rule in rules]

    def hit(self, route, path):
        """fault -> rule, of those that apply to this request"""
        found = {}
        with self.lock:
            for rule in self.rules:
                if rule.get("route", route) != route:
                    continue
                if rule.get("match", "") not in path:
                    continue
                rule["seen"] += 1
                past = rule["seen"] - rule.get("skip", 0)
                if 0 < past <= rule.get("times", past):
                    found[rule["fault"]] = rule
        return found
