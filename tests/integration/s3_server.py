# SPDX-License-Identifier: Apache-2.0
"""A small server of S3's protocol over a folder: GET of objects and ranges, and ListObjectsV2. It
checks the signatures of requests (AWS Signature Version 4) by itself, and can be told to fail.

Source: Amazon, "Authenticating Requests: Using the Authorization Header (AWS Signature Version 4)"
and "ListObjectsV2" in the API reference of S3.
"""

import hashlib
import hmac
import http.server
import pathlib
import re
import threading
import urllib.parse
import xml.sax.saxutils

KEY, SECRET, REGION = "test-key", "test-secret", "eu-test-1"


def signature(request, path, query, headers, signed, stamp, payload):
    canonical_query = "&".join(
        f"{urllib.parse.quote(name, safe='-_.~')}={urllib.parse.quote(value, safe='-_.~')}"
        for name, value in sorted(urllib.parse.parse_qsl(query, keep_blank_values=True)))
    canonical = "\n".join([
        request, path, canonical_query,
        *(f"{name}:{' '.join(headers[name].split())}" for name in signed), "", ";".join(signed),
        payload])
    scope = f"{stamp[:8]}/{REGION}/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope,
                      hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + SECRET).encode()
    for part in (*scope.split("/"), text):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key.hex()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, body, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, status, code):
        self.reply(status, f"<?xml version='1.0'?><Error><Code>{code}</Code></Error>".encode())

    def is_signed(self, path, query):
        found = re.fullmatch(
            r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/s3/aws4_request, *"
            r"SignedHeaders=([^,]+), *Signature=([0-9a-f]{64})",
            self.headers.get("Authorization", ""))
        if not found:
            return False
        key, day, region, signed, given = found.groups()
        stamp = self.headers.get("x-amz-date", "")
        headers = {name.lower(): value for name, value in self.headers.items()}
        if key != KEY or region != REGION or not stamp.startswith(day) or "host" not in signed:
            return False
        payload = headers.get("x-amz-content-sha256", hashlib.sha256(b"").hexdigest())
        return hmac.compare_digest(given, signature("GET", path, query, headers,
                                                    signed.split(";"), stamp, payload))

    def do_GET(self):
        server = self.server
        path, _, query = self.path.partition("?")
        server.requests.append(self.path)
        failure = server.failures.pop(0) if server.failures else None
        if failure == "stop":
            self.close_connection = True
            return
        if failure == "half":
            self.send_response(200)
            self.send_header("Content-Length", "100000")
            self.end_headers()
            self.wfile.write(b"x" * 10)
            self.close_connection = True
            return
        if failure in STRANGE:
            self.close_connection = True
            try:
                STRANGE[failure](self)
            except OSError:
                pass  # The client has had enough.
            return
        if failure:
            self.refuse(failure, "InternalError" if failure >= 500 else "SlowDown")
            return
        if server.signed and not self.is_signed(path, query):
            self.refuse(403, "SignatureDoesNotMatch")
            return
        bucket, _, key = urllib.parse.unquote(path).lstrip("/").partition("/")
        if bucket != server.bucket:
            self.refuse(404, "NoSuchBucket")
        elif not key:
            self.list(dict(urllib.parse.parse_qsl(query)))
        else:
            self.get(key)

    def list(self, query):
        assert query["list-type"] == "2" and query["encoding-type"] == "url", query
        root = self.server.root
        keys = sorted(file.relative_to(root).as_posix() for file in root.rglob("*")
                      if file.is_file())
        keys = [key for key in keys if key.startswith(query.get("prefix", ""))]
        first = int(query.get("continuation-token", "0/+=").split("/")[0])
        page = keys[first:first + self.server.page]
        rest = first + len(page) < len(keys)
        text = "".join(
            f"<Contents><Key>{xml.sax.saxutils.escape(urllib.parse.quote(key))}</Key>"
            f"<Size>{(root / key).stat().st_size}</Size></Contents>" for key in page)
        if rest:
            text += f"<NextContinuationToken>{first + len(page)}/+=</NextContinuationToken>"
        self.reply(200, ("<?xml version='1.0' encoding='UTF-8'?>"
                         "<ListBucketResult xmlns='http://s3.amazonaws.com/doc/2006-03-01/'>"
                         f"<IsTruncated>{str(rest).lower()}</IsTruncated>{text}"
                         "</ListBucketResult>").encode())

    def get(self, key):
        file = self.server.root / key
        if not file.is_file():
            self.refuse(404, "NoSuchKey")
            return
        body = file.read_bytes()
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if wanted:
            first, last = map(int, wanted.groups())
            part = body[first:last + 1]
            self.reply(206, part, Content_Range=f"bytes {first}-{last}/{len(body)}")
        else:
            self.reply(200, body)


def be_silent(handler):
    handler.server.ended.wait()


def drip(handler):
    """Sends the beginning of an answer, and then a byte now and then."""
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    while not handler.server.ended.wait(0.05):
        handler.wfile.write(b"x")


def send_headers(handler):
    """Sends headers without end."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    while not handler.server.ended.is_set():
        handler.wfile.write(b"X-Header: " + b"x" * 1000 + b"\r\n")


def list_for_ever(handler):
    """Sends a page of a listing that never ends; the next request gets the next one."""
    number = len(handler.server.requests)
    handler.server.failures.insert(0, "endless")
    entry = ("<Contents><Key>some%20photos/class/{:012d}-{:06d}.jpg</Key><Size>100</Size>"
             "</Contents>")
    handler.reply(200, ("<ListBucketResult>" +
                        "".join(entry.format(number, i) for i in range(10000)) +
                        f"<NextContinuationToken>{number}</NextContinuationToken>"
                        "</ListBucketResult>").encode())


STRANGE = {"silence": be_silent, "drip": drip, "headers": send_headers, "endless": list_for_ever}


class Server(http.server.ThreadingHTTPServer):
    """Serves a folder as a bucket. `failures` are what the next requests meet."""

    daemon_threads = True

    def __init__(self, root, bucket="photos", signed=True, page=7):
        super().__init__(("127.0.0.1", 0), Handler)
        self.root, self.bucket, self.signed, self.page = pathlib.Path(root), bucket, signed, page
        self.requests, self.failures = [], []
        self.ended = threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"
