#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An S3 server for tests: moto's, behind a check of every signature.

moto takes any signature for a good one. Here each request is checked as the
documentation of AWS Signature Version 4 says it is, with the standard library
only, and refused as S3 refuses it. Clients that sign wrongly cannot pass.

  --keys ID:SECRET[:TOKEN]  who may ask; may be repeated
  --public BUCKET           readable without a signature; may be repeated
  --region NAME             the region of all buckets
  --load BUCKET=DIR         a bucket with the files below DIR; may be repeated
  --page NUMBER             list no more at a time
  --port-file, --log FILE   where the port and a line per request go

GET /-control?status=503&code=SlowDown&times=2&match=PATTERN&skip=1 makes
requests whose "METHOD URI AGENT" matches fail so, the first of them excepted; times=0
clears. skew=SECONDS moves the server's clock. deny=PATTERN&code=CODE&times=2:
so many of the keys that are to be deleted together and match are not,
without a word for the code "none".
Requests for that must have their checksum.
"""
import argparse
import base64
import datetime
import hashlib
import hmac
import io
import os
import re
import sys
import threading
import urllib.parse

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server
from werkzeug.test import Client

EMPTY = hashlib.sha256(b"").hexdigest()
SKEW_MAX = 15 * 60


class Refused(Exception):
    def __init__(self, status, code, more="", headers=()):
        super().__init__(code)
        self.status, self.code, self.more = status, code, more
        self.headers = list(headers)


def quote(raw):
    return urllib.parse.quote(raw, safe="-_.~")


def canonical_path(raw):
    return "/".join(quote(urllib.parse.unquote_to_bytes(part))
                    for part in raw.split("/"))


def canonical_query(raw):
    pairs = []
    for part in raw.split("&") if raw else []:
        name, _, value = part.partition("=")
        pairs.append((quote(urllib.parse.unquote_to_bytes(name)),
                      quote(urllib.parse.unquote_to_bytes(value))))
    return "&".join(f"{n}={v}" for n, v in sorted(pairs))


def sign(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


class Checked:
    """The WSGI application."""

    def __init__(self, options):
        self.app = DomainDispatcherApplication(create_backend_app)
        self.keys, self.public = {}, set(options.public)
        for text in options.keys:
            ident, secret, *token = text.split(":", 2)
            self.keys[ident] = (secret, token[0] if token else None)
        self.region, self.skew, self.page = options.region, 0, options.page
        self.fault, self.lock = None, threading.Lock()
        self.denied = None
        self.log = open(options.log, "a", buffering=1)  # pylint: disable=R1732

    def request_hash(self, environ):
        """Of the body, which is read and put back."""
        length = int(environ.get("CONTENT_LENGTH") or 0)
        body = environ["wsgi.input"].read(length) if length else b""
        environ["wsgi.input"] = io.BytesIO(body)
        return hashlib.sha256(body).hexdigest()

    def check_hash(self, environ):
        named = environ.get("HTTP_X_AMZ_CONTENT_SHA256")
        if named is None:
            raise Refused(400, "MissingSecurityHeader")
        actual = self.request_hash(environ)
        if named not in ("UNSIGNED-PAYLOAD", actual):
            raise Refused(400, "XAmzContentSHA256Mismatch")
        return named

    def check_scope(self, scope):
        if len(scope) != 5 or scope[3:] != ["s3", "aws4_request"]:
            raise Refused(400, "AuthorizationHeaderMalformed")
        if scope[0] not in self.keys:
            raise Refused(403, "InvalidAccessKeyId")
        if scope[2] != self.region:
            raise Refused(400, "AuthorizationHeaderMalformed",
                          f"<Region>{self.region}</Region>",
                          [("x-amz-bucket-region", self.region)])

    def check_time(self, environ):
        stamp = environ.get("HTTP_X_AMZ_DATE", "")
        try:
            asked = datetime.datetime.strptime(stamp, "%Y%m%dT%H%M%SZ")
        except ValueError:
            raise Refused(403, "AccessDenied") from None
        now = datetime.datetime.utcnow()
        if abs((now - asked).total_seconds() + self.skew) > SKEW_MAX:
            raise Refused(403, "RequestTimeTooSkewed")
        return stamp

    def check(self, environ, path, query):
        text = environ.get("HTTP_AUTHORIZATION", "")
        if not text:
            if environ["REQUEST_METHOD"] == "GET" and \
               path.split("/")[1] in self.public:
                # moto has rules of its own; what is public is said here.
                environ["HTTP_AUTHORIZATION"] = (
                    "AWS4-HMAC-SHA256 "
                    "Credential=-/20260101/us-east-1/s3/aws4_request")
                return "-"
            raise Refused(403, "AccessDenied")
        kind, _, rest = text.partition(" ")
        fields = dict(part.strip().split("=", 1) for part in rest.split(","))
        if kind != "AWS4-HMAC-SHA256" or len(fields) != 3:
            raise Refused(400, "AuthorizationHeaderMalformed")
        scope = fields["Credential"].split("/")
        self.check_scope(scope)
        stamp, payload = self.check_time(environ), self.check_hash(environ)
        names = fields["SignedHeaders"].split(";")
        secret, token = self.keys[scope[0]]
        if environ.get("HTTP_X_AMZ_SECURITY_TOKEN") != token:
            raise Refused(403, "InvalidToken")
        needed = {"host"} | {
            name[5:].lower().replace("_", "-") for name in environ
            if name.startswith("HTTP_X_AMZ_")}
        if names != sorted(names) or not needed <= set(names):
            raise Refused(403, "AccessDenied")
        canonical = "\n".join([
            environ["REQUEST_METHOD"], canonical_path(path),
            canonical_query(query),
            *(f"{name}:{self.header(environ, name)}" for name in names),
            "", ";".join(names), payload])
        to_sign = "\n".join([
            "AWS4-HMAC-SHA256", stamp, "/".join(scope[1:]),
            hashlib.sha256(canonical.encode()).hexdigest()])
        key = ("AWS4" + secret).encode()
        for part in scope[1:]:
            key = sign(key, part)
        if not hmac.compare_digest(sign(key, to_sign).hex(),
                                   fields["Signature"]):
            raise Refused(403, "SignatureDoesNotMatch")
        return scope[0]

    @staticmethod
    def header(environ, name):
        key = name.upper().replace("-", "_")
        if key not in ("CONTENT_TYPE", "CONTENT_LENGTH"):
            key = "HTTP_" + key
        return " ".join(environ.get(key, "").split())

    def control(self, query):
        fields = dict(urllib.parse.parse_qsl(query))
        with self.lock:
            if "skew" in fields:
                self.skew = int(fields["skew"])
            if "deny" in fields:
                self.denied = fields | {"left": int(fields["times"])}
            elif "times" in fields:
                self.fault = fields | {"left": int(fields["times"]),
                                       "skip": int(fields.get("skip", 0))}

    def fail_on_demand(self, line):
        with self.lock:
            fault = self.fault
            if not fault or fault["left"] <= 0 or \
               not re.search(fault.get("match", ""), line):
                return
            fault["skip"] -= 1
            if fault["skip"] >= 0:
                return
            fault["left"] -= 1
        raise Refused(int(fault["status"]), fault["code"])

    def is_denied(self, match):
        """Also that its error is to be answered."""
        with self.lock:
            denied = self.denied
            if not denied or denied["left"] <= 0 or \
               not re.search(denied["deny"], match[1]):
                return False
            denied["left"] -= 1
        return True

    def delete_together(self, environ, start):
        """moto denies nobody and checks nothing."""
        body = environ["wsgi.input"].read()
        md5 = base64.b64encode(hashlib.md5(body).digest()).decode()
        if environ.get("HTTP_CONTENT_MD5") != md5:
            raise Refused(400, "InvalidRequest")
        errors = []

        def without(match):
            if not self.is_denied(match):
                return match[0]
            if self.denied["code"] != "none":
                errors.append(f"<Error><Key>{match[1]}</Key><Code>"
                              f"{self.denied['code']}</Code></Error>")
            return ""

        body = re.sub("<Object><Key>(.*?)</Key></Object>", without,
                      body.decode()).encode()
        environ["wsgi.input"] = io.BytesIO(body)
        environ["CONTENT_LENGTH"] = str(len(body))
        if b"<Object>" not in body:
            answer = "<DeleteResult></DeleteResult>"
            start("200 OK", [("Content-Type", "application/xml")])
        else:
            answer = b"".join(self.app(environ, lambda status, headers, *rest:
                                       start(status, [
                                           pair for pair in headers if
                                           pair[0].lower() != "content-length"
                                       ], *rest))).decode()
        return [answer.replace("</DeleteResult>", "".join(errors) +
                               "</DeleteResult>").encode()]

    def __call__(self, environ, start_response):
        path, _, query = environ["RAW_URI"].partition("?")
        line = f"{environ['REQUEST_METHOD']} {environ['RAW_URI']}"
        if path == "/-control":
            self.control(query)
            start_response("204 No Content", [])
            return []
        who, status = "-", []

        def start(text, headers, *rest):
            status.append(text.split()[0])
            return start_response(text, headers, *rest)

        try:
            self.fail_on_demand(
                f"{line} {environ.get('HTTP_USER_AGENT', '')}")
            who = self.check(environ, path, query)
            if self.page and re.search("list-type=2|uploads=$", query):
                environ["QUERY_STRING"] += \
                    f"&max-keys={self.page}&max-uploads={self.page}"
            if query.startswith("delete"):
                answer = self.delete_together(environ, start)
            else:
                answer = self.app(environ, start)
        except Refused as refused:
            body = (f"<?xml version=\"1.0\"?>\n<Error><Code>{refused.code}"
                    f"</Code><Message>no</Message>{refused.more}</Error>"
                    ).encode()
            start(f"{refused.status} Refused", refused.headers + [
                ("Content-Type", "application/xml"),
                ("Content-Length", str(len(body)))])
            answer = [body]
        ranged = environ.get("HTTP_RANGE", "-")
        self.log.write(f"{line} {status[0]} {who} {ranged}\n")
        return answer


class Handler(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_request(self, *_args):  # pylint: disable=W0221
        pass


def load(app, text, port):
    """Past the check: moto itself is asked."""
    bucket, _, top = text.partition("=")
    client, base = Client(app), f"http://127.0.0.1:{port}"
    answer = client.put(f"/{bucket}", base_url=base)
    assert answer.status_code == 200, answer.data
    for where, _, names in os.walk(top) if top else []:
        for name in names:
            path = os.path.join(where, name)
            key = urllib.parse.quote(os.path.relpath(path, top))
            with open(path, "rb") as file:
                answer = client.put(f"/{bucket}/{key}", base_url=base,
                                    data=file.read())
            assert answer.status_code == 200, answer.data


def main():
    parser = argparse.ArgumentParser()
    for name in "--keys", "--public", "--load":
        parser.add_argument(name, action="append", default=[])
    parser.add_argument("--region", default="us-east-1")
    parser.add_argument("--page", type=int, default=0)
    parser.add_argument("--log", required=True)
    parser.add_argument("--port-file", required=True)
    options = parser.parse_args()
    checked = Checked(options)
    server = make_server("127.0.0.1", 0, checked, threaded=True,
                         request_handler=Handler)
    for text in options.load:
        load(checked.app, text, server.server_port)
    with open(options.port_file + ".new", "w", encoding="ascii") as file:
        file.write(f"{server.server_port}\n")
    os.rename(options.port_file + ".new", options.port_file)
    server.serve_forever()


if __name__ == "__main__":
    sys.exit(main())
