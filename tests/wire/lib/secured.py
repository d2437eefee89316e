# SPDX-License-Identifier: MIT
"""A client's socket that speaks TLS, with the methods of a socket that the tests use.

The library gets bytes through memory, so the socket can be half-closed, time-outs are the socket's own, and one thread may
read while another writes: a lock is held while the library works, and never while the socket may wait.
The handshake happens with the first byte that is sent or read, because a test may open connections that say nothing.
"""
import os
import shlex
import socket
import ssl
import threading

CHUNK = 65536
# The whole suite runs over TLS if the options of every server have --tls.
EVERYWHERE = "--tls" in shlex.split(os.environ.get("RUNG_ARGS") or "")


def anyone():
    """A context that trusts every certificate; tests of certificates bring their own."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def cut_off(error):
    """Whether the stream ended without close_notify."""
    return isinstance(error, ssl.SSLEOFError) or error.reason == "UNEXPECTED_EOF_WHILE_READING"


class Secured:
    def __init__(self, sock, context=None, name="localhost", session=None):
        self.raw = sock
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = context or anyone()
        context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF  # Python takes any end for close_notify
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname=name, session=session)
        self.openssl, self.writing, self.shaking = threading.RLock(), threading.RLock(), threading.Lock()
        self.begun = self.ended = False  # ended: the server's close_notify has come

    def __getattr__(self, name):
        return getattr(self.raw, name)

    def flush(self, wait=True):
        """Send what the library has made.  A reader does not wait for a writer: the server may answer before it reads on."""
        if not self.writing.acquire(blocking=wait):
            return
        try:
            while self.outgoing.pending:
                with self.openssl:
                    data = self.outgoing.read()
                self.raw.sendall(data)
        finally:
            self.writing.release()

    def fill(self):
        data = self.raw.recv(CHUNK)
        with self.openssl:
            if data:
                self.incoming.write(data)
            else:
                self.incoming.write_eof()

    def begin(self):
        """The handshake, by the first thread that sends or reads; another one waits for its end."""
        with self.shaking:
            if not self.begun:
                self.handshake()
                self.begun = True

    def handshake(self):
        while True:
            try:
                with self.openssl:
                    self.tls.do_handshake()
                self.flush()
                return
            except ssl.SSLWantReadError:
                self.flush()
                self.fill()
            except ssl.SSLError as error:
                if not cut_off(error):
                    raise
                raise ConnectionResetError("the stream ended within the handshake") from error

    def sendall(self, data):
        if not self.begun:
            self.begin()
        with self.writing:
            with self.openssl:
                if data:
                    self.tls.write(data)
            self.flush()

    def recv(self, n):
        """As of a socket: b"" is the end, with or without close_notify (ended)."""
        if not self.begun:
            self.begin()
        while True:
            try:
                with self.openssl:
                    data = self.tls.read(n)
                self.ended = self.ended or not data
                return data
            except ssl.SSLWantReadError:
                self.flush(wait=False)
                self.fill()
            except ssl.SSLZeroReturnError:
                self.ended = True
                return b""
            except ssl.SSLError as error:
                if not cut_off(error):
                    raise
                return b""

    def recv_into(self, view):
        data = self.recv(len(view))
        view[:len(data)] = data
        return len(data)

    def shutdown(self, how):
        """Half-close: close_notify, and the end of the stream."""
        if self.begun and how != socket.SHUT_RD:
            try:
                with self.openssl:
                    self.tls.unwrap()
            except ssl.SSLError:
                pass  # it wants the server's, which comes when it comes
            self.flush()
        self.raw.shutdown(how)
