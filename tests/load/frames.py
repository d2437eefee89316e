# SPDX-License-Identifier: MIT
"""Servers of HTTP/2 for the tests of rung load, which may lie: python3-h2 reads requests, an answer function sends what it
likes."""
import contextlib
import threading

import h2.config
import h2.connection
import h2.events
import h2.settings
from aid import Liar, at_once
from hyperframe.frame import ContinuationFrame, DataFrame, Frame, GoAwayFrame, HeadersFrame, PingFrame, RstStreamFrame, SettingsFrame


class Ask:
    """A request, and the ways to answer it."""

    def __init__(self, talk, stream, fields, number):
        self.talk, self.stream, self.fields, self.number = talk, stream, fields, number
        self.field = dict(fields)
        self.path, self.method = self.field.get(":path"), self.field.get(":method")

    def head(self, status=200, end=False, **fields):
        self.block([(":status", str(status)), *((name.replace("_", "-"), str(value)) for name, value in fields.items())], end)

    def block(self, fields, end=False, piece=None):
        """A header block of these fields, whatever they are; piece: bytes of each frame."""
        block = self.talk.connection.encoder.encode(fields)
        pieces = [block] if piece is None else [block[at:at + piece] for at in range(0, len(block), piece)]
        for number, part in enumerate(pieces):
            frame = HeadersFrame(self.stream) if number == 0 else ContinuationFrame(self.stream)
            frame.data = part
            if end and number == 0:
                frame.flags.add("END_STREAM")
            if number == len(pieces) - 1:
                frame.flags.add("END_HEADERS")
            self.send(frame)

    def data(self, body, end=True, padding=0):
        frame = DataFrame(self.stream, body)
        if end:
            frame.flags.add("END_STREAM")
        if padding:
            frame.flags.add("PADDED")
            frame.pad_length = padding
        self.send(frame)

    def answer(self, body=b"hello", status=200, **fields):
        self.head(status, content_length=len(body), **fields)
        self.data(body)

    def reset(self, error=2):
        self.send(RstStreamFrame(self.stream, error_code=error))

    def goaway(self, last, error=0):
        self.send(GoAwayFrame(0, last_stream_id=last, error_code=error))

    def send(self, frame):
        self.raw(frame.serialize())

    def raw(self, data):
        with self.talk.lock:
            self.talk.sock.sendall(data)


class Talk:
    def __init__(self, sock, connection):
        self.sock, self.connection, self.lock = sock, connection, threading.Lock()
        self.open = self.most = 0
        self.resets = []


class H2Liar(Liar):
    """answer(ask): False ends the connection.  streams: what its SETTINGS allow.  context: of TLS."""

    def __init__(self, answer, streams=100, context=None):
        self.streams, self.context, self.talks = streams, context, []
        super().__init__(answer)
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{self.port}/x"
        self.preface = None  # sent in place of SETTINGS

    def serve(self, sock):
        with contextlib.suppress(OSError):
            at_once(sock)
            if self.context:
                sock = self.context.wrap_socket(sock, server_side=True)
            with sock:
                self.speak(sock)
        self.open.discard(sock)

    def speak(self, sock):
        connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        talk = Talk(sock, connection)
        self.talks.append(talk)
        connection.initiate_connection()
        connection.data_to_send()
        if self.preface is None:
            talk.sock.sendall(SettingsFrame(0, settings={3: self.streams}).serialize())
        else:
            sock.sendall(self.preface)
        alive = True
        while alive and (data := sock.recv(65536)):
            for event in connection.receive_data(data):
                if isinstance(event, h2.events.RequestReceived):
                    with self.lock:
                        number, self.count = self.count, self.count + 1
                    alive = alive and self.answer(Ask(talk, event.stream_id, event.headers, number)) is not False
                elif isinstance(event, h2.events.StreamReset):
                    talk.resets.append((event.stream_id, int(event.error_code)))
            with talk.lock:
                if out := connection.data_to_send():
                    sock.sendall(out)


__all__ = ["Ask", "Frame", "H2Liar", "PingFrame", "SettingsFrame"]
