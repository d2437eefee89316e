# SPDX-License-Identifier: MIT
"""https for the tests of rung load: certificates, and servers that lie beneath or behind TLS."""
import contextlib
import os
import socket
import ssl
import subprocess
import threading

from aid import Liar

NAMES = "DNS:localhost,IP:127.0.0.1,IP:::1"


class Certificate:
    """A certificate that signs itself, and its key, as files."""

    def __init__(self, folder, name, names=NAMES):
        self.cert, self.key = (os.path.join(str(folder), f"{name}.{kind}") for kind in ("pem", "key"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                        "-keyout", self.key, "-out", self.cert, "-subj", f"/CN={name}", "-addext", f"subjectAltName={names}"],
                       check=True, stderr=subprocess.DEVNULL, timeout=60)

    def context(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.cert, self.key)
        return context


class TlsLiar(Liar):
    """A Liar behind TLS.  Its answer function gets an SSLSocket."""

    def __init__(self, answer, context):
        self.context = context
        super().__init__(answer)
        self.url = f"https://127.0.0.1:{self.port}/x"

    def serve(self, sock):
        with contextlib.suppress(OSError):
            super().serve(self.context.wrap_socket(sock, server_side=True))
        sock.close()


class Cutter:
    """A relay that passes the server's bytes on in pieces of that size, and the client's as they come."""

    def __init__(self, port, piece):
        self.port, self.piece = port, piece
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.own_port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                near = self.listener.accept()[0]
                far = socket.create_connection(("127.0.0.1", self.port))
                for sock in (near, far):
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self.copy, args=(near, far, 65536), daemon=True).start()
                threading.Thread(target=self.copy, args=(far, near, self.piece), daemon=True).start()

    @staticmethod
    def copy(source, sink, piece):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                for at in range(0, len(data), piece):
                    sink.sendall(data[at:at + piece])
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()
