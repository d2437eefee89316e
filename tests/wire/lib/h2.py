# SPDX-License-Identifier: MIT
"""A strict HTTP/2 client: python3-h2 checks every frame that comes, and each head has to follow the rules of client.py.

Frames that a good client never sends are written as bytes (frame()).  Windows are opened as bytes are read, unless a test
says otherwise.
"""
import os
import socket
import struct

import h2.config
import h2.connection
import h2.events
import h2.settings
import hpack

from .client import PATIENCE, Reply, check_head, check_trailers, require
from .secured import Secured, anyone

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
PRIORITY_UPDATE = 0x10
END_STREAM, ACK, END_HEADERS = 1, 1, 4
NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, STREAM_CLOSED, REFUSED_STREAM, CANCEL, CALM = 0, 1, 2, 5, 7, 8, 11
CONNECTION_FIELDS = {"connection", "keep-alive", "transfer-encoding", "upgrade", "proxy-connection"}


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def block(path="/hello.txt", method="GET", fields=(), scheme="http", authority="a"):
    """A header block that changes no table, so that it may be sent at any time."""
    pseudo = [(":method", method), (":scheme", scheme), (":path", path), (":authority", authority)]
    return hpack.Encoder().encode([hpack.NeverIndexedHeaderTuple(*pair) for pair in [*pseudo, *fields]])


class Gone(AssertionError):
    """The connection has ended."""


class Client:
    def __init__(self, server, secured=None, window=None, rcvbuf=None, settings=(), name="localhost"):
        self.sock = socket.socket(socket.AF_INET6 if ":" in server.address[0] else socket.AF_INET)
        self.sock.settimeout(PATIENCE)
        if rcvbuf:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        self.sock.connect(server.address)
        if server.secured if secured is None else secured:
            context = anyone()
            context.set_alpn_protocols(["h2"])
            self.sock = Secured(self.sock, context, name)
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        values = {h2.settings.SettingCodes.ENABLE_PUSH: 0, **dict(settings)}
        if window is not None:
            values[h2.settings.SettingCodes.INITIAL_WINDOW_SIZE] = window
        self.h2.local_settings = h2.settings.Settings(client=True, initial_values=values)
        self.h2.initiate_connection()
        self.reads = True  # windows are opened as bytes come
        self.replies, self.complete, self.resets, self.order = {}, [], {}, []
        self.methods, self.goaways, self.acks, self.rest = {}, [], 0, b""
        self.flush()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def flush(self):
        data = self.h2.data_to_send()
        if data:
            self.sock.sendall(data)

    def raw(self, data):
        self.flush()
        self.sock.sendall(data)

    # --- asking

    def ask(self, path="/hello.txt", method="GET", fields=(), body=None, ends=True, authority="a"):
        """Sends a request; returns its stream.  ends False: a body may follow."""
        stream = self.h2.get_next_available_stream_id()
        pseudo = [(":method", method), (":scheme", "http"), (":path", path), (":authority", authority)]
        self.methods[stream] = method
        self.h2.send_headers(stream, [*pseudo, *fields], end_stream=ends and body is None)
        self.flush()
        if body is not None:
            self.say(stream, body, ends)
        return stream

    def say(self, stream, body, ends=True):
        """Bytes of a request's body, as windows allow.  A stream that the server resets is not written to further."""
        at = 0
        while at < len(body) and stream not in self.resets:
            room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size, len(body) - at)
            if room:
                self.h2.send_data(stream, body[at:at + room])
                at += room
                self.flush()
            else:
                self.hear()
        if ends and stream not in self.resets:
            self.h2.send_data(stream, b"", end_stream=True)
            self.flush()

    # --- hearing

    def hear(self):
        """What one receive brings."""
        try:
            data = self.sock.recv(1 << 16)
        except ConnectionResetError:
            data = b""
        if not data:
            raise Gone(f"ended: {self.goaways}")
        for event in self.h2.receive_data(self.without_goaway(data)):
            self.take(event)
        self.flush()
        return data

    def without_goaway(self, data):
        """Whole frames; python3-h2 takes GOAWAY for the end, though answers may still come (RFC 9113 6.8)."""
        self.rest += data
        passed = b""
        while len(self.rest) >= 9 and len(self.rest) >= (end := 9 + int.from_bytes(self.rest[:3], "big")):
            whole, self.rest = self.rest[:end], self.rest[end:]
            if whole[3] == GOAWAY:
                self.goaways.append(struct.unpack(">II", whole[9:17]))
            else:
                passed += whole
        return passed

    def take(self, event):
        if isinstance(event, h2.events.InformationalResponseReceived):
            self.replies.setdefault(event.stream_id, Reply(0, "", {})).continues += 1
        elif isinstance(event, h2.events.ResponseReceived):
            self.head(event)
        elif isinstance(event, h2.events.DataReceived):
            self.replies[event.stream_id].body += event.data
            self.order.append((event.stream_id, len(event.data)))
            if self.reads and event.flow_controlled_length:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.TrailersReceived):
            self.replies[event.stream_id].trailers = dict(event.headers)
            require(len(event.headers) == len(dict(event.headers)), "trailer given twice:", event.headers)
        elif isinstance(event, h2.events.StreamEnded):
            self.end(event.stream_id)
        elif isinstance(event, h2.events.StreamReset):
            self.resets[event.stream_id] = int(event.error_code)
        elif isinstance(event, h2.events.PingAckReceived):
            self.acks += 1
        require(not isinstance(event, h2.events.PushedStreamReceived), "unwanted", event)

    def head(self, event):
        before = self.replies.get(event.stream_id)
        fields = {}
        for name, value in event.headers:
            require(name not in fields and name not in CONNECTION_FIELDS, "field", name)
            fields[name] = value
        reply = Reply(int(fields.pop(":status")), "", fields)
        reply.body = bytearray()
        reply.continues = before.continues if before else 0
        check_head(reply, self.methods[event.stream_id], 1)
        self.replies[event.stream_id] = reply

    def end(self, stream):
        reply = self.replies[stream]
        if reply.get("content-length") and self.methods[stream] != "HEAD" and reply.status != 304:
            require(len(reply.body) == reply.length, "length", len(reply.body))
        if self.methods[stream] != "HEAD":
            check_trailers(reply)
        self.complete.append(stream)

    def reply(self, stream):
        """The whole answer of a stream."""
        while stream not in self.complete:
            require(stream not in self.resets, "reset", self.resets.get(stream))
            self.hear()
        return self.replies[stream]

    def get(self, *args, **options):
        return self.reply(self.ask(*args, **options))

    def reset(self, stream):
        """How the server resets that stream."""
        while stream not in self.resets:
            self.hear()
        return self.resets[stream]

    def until_gone(self):
        """Everything until the end of the connection; the codes of GOAWAY."""
        try:
            while True:
                self.hear()
        except Gone:
            return [code for _, code in self.goaways]


def cut_off(client, path, file, **asked):
    """The reply to a path whose answer needs that file, which shrinks while it is sent: its stream was reset."""
    client.reads = False  # so that it is not done too soon
    stream = client.ask(path, **asked)
    while stream not in client.replies or not client.replies[stream].body:
        client.hear()
    os.truncate(file, 1000)
    client.reads = True
    client.h2.increment_flow_control_window(1 << 28)
    client.h2.increment_flow_control_window(1 << 28, stream)
    client.flush()
    assert client.reset(stream) == INTERNAL_ERROR
    return client.replies[stream]
