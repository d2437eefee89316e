# SPDX-License-Identifier: MIT
"""A strict HTTP/1.1 client on a bare socket.

The client sends exactly the bytes it is given, split where the test wants, and reads answers with a strict
grammar of its own: CRLF only, no repeated field, one framing, chunk sizes that match, a correct Date.
A sloppy answer raises Sloppy even where a test looks only at the status.
"""
import calendar
import re
import socket
import struct
import time

from .secured import EVERYWHERE, Secured

STATUS = re.compile(rb"HTTP/1\.1 ([1-5][0-9][0-9]) ([\x21-\x7e][\x20-\x7e]*)\Z")
FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+): ([\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)\Z")
CHUNK = re.compile(rb"[0-9a-fA-F]{1,16}\Z")
DATE = re.compile(r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), [0-3][0-9] "
                  r"(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [0-9]{4} "
                  r"[0-2][0-9]:[0-5][0-9]:[0-6][0-9] GMT\Z")
HEAD_MAX = 65536
PATIENCE = 60  # seconds a read may take before the test fails; nothing waits that long when all is well


class Sloppy(AssertionError):
    """The answer breaks a rule of RFC 9110 or 9112, or one of rung's own."""


def require(truth, *what):
    if not truth:
        raise Sloppy(" ".join(w if isinstance(w, str) else repr(w) for w in what))


def date_seconds(text):
    """Unix time of an IMF-fixdate (RFC 9110 5.6.7), which must be exact, its day of the week too."""
    require(DATE.match(text), "not an IMF-fixdate:", text)
    parsed = time.strptime(text, "%a, %d %b %Y %H:%M:%S GMT")
    seconds = calendar.timegm(parsed)
    require(time.strftime("%a", time.gmtime(seconds)) == text[:3], "wrong day of the week:", text)
    return seconds


class Reply:
    """One answer. fields: lower-case name -> value."""

    def __init__(self, status, reason, fields):
        self.status, self.reason, self.fields = status, reason, fields
        self.body, self.trailers, self.chunks = b"", {}, []
        self.continues = 0  # 1xx answers that came before it

    def __repr__(self):
        return f"<{self.status} {self.reason} {self.fields} {len(self.body)} bytes>"

    def __getitem__(self, name):
        return self.fields[name.lower()]

    def get(self, name):
        return self.fields.get(name.lower())

    @property
    def closes(self):
        return (self.get("connection") or "").lower() == "close"

    @property
    def length(self):
        return int(self["content-length"])


def parse_fields(lines):
    fields = {}
    for line in lines:
        match = FIELD.match(line)
        require(match, "malformed field line:", line)
        name = match[1].decode().lower()
        require(name not in fields, "field given twice:", name)
        fields[name] = match[2].decode()
    return fields


def check_head(reply, method, minor):
    """Rules that hold for every final answer of this server."""
    f, status = reply.fields, reply.status
    require("date" in f, "no Date (RFC 9110 6.6.1)")
    require(abs(date_seconds(f["date"]) - time.time()) < 90, "wrong Date:", f["date"])
    require(f.get("server", "").startswith("rung"), "Server:", f.get("server"))
    require(f.get("connection", "close").lower() in ("close", "keep-alive"), "Connection:", f)
    require(not ("content-length" in f and "transfer-encoding" in f), "two framings")
    if "content-length" in f:
        require(re.fullmatch(r"0|[1-9][0-9]*", f["content-length"]), "Content-Length:", f)
    if "transfer-encoding" in f:
        require(f["transfer-encoding"] == "chunked", "Transfer-Encoding:", f)
        require(minor == 1, "chunked answer to HTTP/1.0 (RFC 9112 6.1)")
        require(status not in (204, 304), "chunked without a body")
    require("trailer" not in f or "content-length" not in f and minor == 1, "a trailer without chunks:", f)
    if "last-modified" in f:
        require(date_seconds(f["last-modified"]) <= time.time() + 90, "Last-Modified in the future")
    if "etag" in f:
        require(re.fullmatch(r'(W/)?"[\x21\x23-\x7e]*"', f["etag"]), "ETag:", f["etag"])
    check_status(reply)


def check_status(reply):
    """Fields that a status demands."""
    f, status = reply.fields, reply.status
    if status == 301:
        require(re.match(r"/(?!/)", f.get("location", "")), "Location:", f.get("location"))
    if status == 405:
        allow = {word.strip() for word in f.get("allow", "").split(",")}
        require({"GET", "HEAD", "OPTIONS"} <= allow, "Allow:", f.get("allow"))
    if status == 416:
        require(re.fullmatch(r"bytes \*/\d+", f.get("content-range", "")), "416 with", f)
    elif status == 206:
        multi = f.get("content-type", "").startswith("multipart/byteranges")
        require(multi != ("content-range" in f), "206 with", f)
    else:
        require("content-range" not in f, "Content-Range with", status)


def check_trailers(reply):
    """The trailers are those that the head has announced, and no others (RFC 9110 6.6.2)."""
    announced = {name.strip().lower() for name in reply.fields.get("trailer", "").split(",") if name.strip()}
    require(set(reply.trailers) == announced, "trailers:", reply.trailers, "announced:", announced)


class Wire:
    """One connection. Use it in a with statement: a naive engine serves no other client while it is open."""

    def __init__(self, address, rcvbuf=None, timeout=PATIENCE, secured=EVERYWHERE, source=None, segment=None):
        if isinstance(address, str):
            family = socket.AF_UNIX
        else:
            family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.sock = socket.socket(family, socket.SOCK_STREAM)
        self.sock.settimeout(timeout)
        if rcvbuf:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        if segment:
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, segment)
        if source:
            self.sock.bind((source, 0))
        self.sock.connect(address)
        if family != socket.AF_UNIX:
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if secured:
            self.sock = Secured(self.sock)
        self.rest = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    def reset(self):
        """Close with a RST."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def finish(self):
        """Half-close: nothing more will be sent."""
        self.sock.shutdown(socket.SHUT_WR)

    def send(self, data):
        self.sock.sendall(data)

    def send_cut(self, data, *cuts):
        """Send in pieces that arrive one by one (as far as a client can ensure that)."""
        edges = [0, *cuts, len(data)]
        for start, end in zip(edges, edges[1:]):
            self.sock.sendall(data[start:end])
            if end < len(data):
                time.sleep(0.0007)

    # --- reading -----------------------------------------------------------------------------------

    def more(self):
        """Read once into rest. False at the end of the stream; a reset raises ConnectionResetError."""
        data = self.sock.recv(262144)
        self.rest += data
        return bool(data)

    def take(self, n):
        """Exactly n bytes."""
        parts, have = [self.rest[:n]], min(n, len(self.rest))
        self.rest = self.rest[n:]
        while have < n:
            data = self.sock.recv(min(n - have, 1 << 20))
            require(data, "stream ended", n - have, "bytes early")
            parts.append(data)
            have += len(data)
        return b"".join(parts)

    def take_into(self, data):
        """Fill the bytearray with the next bytes, without any copy except the kernel's."""
        have, view = min(len(data), len(self.rest)), memoryview(data)
        view[:have], self.rest = self.rest[:have], self.rest[have:]
        while have < len(data):
            more = self.sock.recv_into(view[have:])
            require(more, "stream ended", len(data) - have, "bytes early")
            have += more

    def line(self):
        """The next line without its CRLF; it must not have any other CR or LF."""
        while b"\n" not in self.rest:
            require(len(self.rest) <= HEAD_MAX, "endless line")
            require(self.more(), "stream ended within a line:", self.rest[:80])
        line, _, self.rest = self.rest.partition(b"\n")
        require(line.endswith(b"\r") and b"\r" not in line[:-1], "line end:", line)
        return line[:-1]

    def lines(self):
        """Lines up to an empty one."""
        lines = []
        while True:
            line = self.line()
            if not line:
                return lines
            lines.append(line)

    def reply(self, method="GET", minor=1):
        """The next final answer, whole; 1xx before it are counted in reply.continues."""
        continues = 0
        while True:
            reply = self.head()
            if reply.status >= 200:
                break
            require(reply.status == 100 and minor == 1 and not reply.fields, "interim:", reply)
            continues += 1
        reply.continues = continues
        check_head(reply, method, minor)
        self.body(reply, method, minor)
        return reply

    def head(self):
        lines = self.lines()
        require(lines, "an empty line where an answer should begin")
        match = STATUS.match(lines[0])
        require(match, "status line:", lines[0])
        return Reply(int(match[1]), match[2].decode(), parse_fields(lines[1:]))

    def body(self, reply, method, minor):
        if method == "HEAD" or reply.status in (204, 304):
            return
        if "transfer-encoding" in reply.fields:
            self.chunked(reply)
        elif "content-length" in reply.fields:
            reply.body = self.take(reply.length)
        else:
            require(minor == 0 and reply.closes, "a body without framing")
            while self.more():
                pass
            reply.body, self.rest = self.rest, b""
        if reply.body:
            require("content-type" in reply.fields, "a body without Content-Type")

    def chunked(self, reply):
        parts = []
        while True:
            size = self.line()
            require(CHUNK.match(size), "chunk size line:", size)
            n = int(size, 16)
            if n == 0:
                break
            parts.append(self.take(n))
            require(self.take(2) == b"\r\n", "no CRLF after a chunk")
        reply.chunks = [len(part) for part in parts]
        reply.body = b"".join(parts)
        reply.trailers = parse_fields(self.lines())
        check_trailers(reply)

    def end(self):
        """The server closes in an orderly way, without sending anything more."""
        require(not self.rest, "bytes after the last answer:", self.rest[:80])
        require(not self.more(), "bytes after the last answer:", self.rest[:80])

    def quiet(self, seconds):
        """Whether nothing arrives for that many seconds (and the connection stays open)."""
        before = self.sock.gettimeout()
        self.sock.settimeout(seconds)
        try:
            data = self.sock.recv(1)
            self.rest += data
            return False
        except (TimeoutError, socket.timeout):
            return True
        finally:
            self.sock.settimeout(before)

    # --- asking ------------------------------------------------------------------------------------

    def ask(self, target="/", method="GET", fields=(), body=b"", minor=1):
        """Send one correct request; returns its answer."""
        self.send(request(target, method, fields, body, minor))
        return self.reply(method, minor)


def request(target="/", method="GET", fields=(), body=b"", minor=1):
    """The bytes of a request. fields: strings 'Name: value', or a dict."""
    if isinstance(target, str):
        target = target.encode("latin-1")
    if isinstance(fields, str):
        fields = [fields]
    if isinstance(fields, dict):
        fields = [f"{name}: {value}" for name, value in fields.items()]
    head = method.encode() + b" " + target + b" HTTP/1.%d\r\n" % minor
    lines = list(fields)
    if not any(line.lower().startswith("host:") for line in lines):
        lines.insert(0, "Host: localhost")
    if body and not any(line.lower().startswith("transfer-encoding:") for line in lines):
        lines.append(f"Content-Length: {len(body)}")
    return head + b"".join(line.encode("latin-1") + b"\r\n" for line in lines) + b"\r\n" + body


def byteranges(reply):
    """The parts of a multipart/byteranges answer: [(first, last, size, type, bytes)], strictly decoded."""
    match = re.fullmatch(r"multipart/byteranges; boundary=([0-9A-Za-z'()+_,./:=?-]{1,70})",
                         reply["content-type"])
    require(match, "Content-Type:", reply["content-type"])
    edge = b"--" + match[1].encode()
    body, parts = reply.body, []
    if body.startswith(b"\r\n"):
        body = body[2:]  # an empty preamble (RFC 2046 5.1.1)
    while True:
        require(body.startswith(edge), "no boundary at", body[:80])
        body = body[len(edge):]
        if body.startswith(b"--"):
            require(body in (b"--\r\n", b"--"), "after the last boundary:", body[:80])
            return parts
        require(body.startswith(b"\r\n"), "after a boundary:", body[:80])
        head, found, body = body[2:].partition(b"\r\n\r\n")
        require(found, "part head without an end")
        fields = parse_fields(head.split(b"\r\n"))
        span = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", fields["content-range"])
        require(span, "Content-Range:", fields)
        first, last, size = map(int, span.groups())
        require(first <= last < size, "Content-Range:", fields)
        data, body = body[:last - first + 1], body[last - first + 1:]
        require(len(data) == last - first + 1 and body.startswith(b"\r\n"), "part is too short")
        body = body[2:]
        parts.append((first, last, size, fields.get("content-type"), data))
