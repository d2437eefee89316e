# SPDX-License-Identifier: MIT
"""A small honest server that withstands hostile clients; and the same server with one flaw, chosen by name."""
import contextlib
import socket
import struct
import threading
import time

BODY = bytes(range(256)) * 800
HEAD_MAX = 16384
PATIENCE_S = 0.7  # time limit for a head


class Mini:
    def __init__(self, flaw=None, context=None):
        """context: of TLS."""
        self.context = context
        self.flaw, self.count, self.lock, self.open = flaw, 0, threading.Lock(), set()
        self.room = threading.Semaphore(20 if flaw == "twenty at most" else 100000)
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1000)
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{self.listener.getsockname()[1]}/x"
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.die()
        with self.lock:
            for sock in self.open:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def die(self):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                self.room.acquire()
                sock = self.listener.accept()[0]
                self.count += 1
                if self.flaw == "tires" and self.count > 60:
                    sock.close()
                    continue
                with self.lock:
                    self.open.add(sock)
                if self.flaw == "one at a time":
                    self.guarded(sock)
                else:
                    threading.Thread(target=self.guarded, args=(sock,), daemon=True).start()

    def guarded(self, sock):
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.context:
                sock = self.context.wrap_socket(sock, server_side=True)
            self.serve(sock)
        except (ConnectionResetError, BrokenPipeError):
            if self.flaw == "dies of a reset":
                self.die()
        except OSError:
            pass
        with self.lock:
            self.open.discard(sock)
        sock.close()
        self.room.release()

    def serve(self, sock):
        data, asked = b"", []
        while True:
            if not asked:
                data, status = self.receive(sock, data)
                if status is not None:
                    if status:
                        self.refuse(sock, status)
                    return
                *asked, data = data.split(b"\r\n\r\n")
                if self.flaw == "swaps" and len(asked) > 1:
                    asked[0], asked[1] = asked[1], asked[0]
                many = len(asked) > 1
                if self.flaw == "forgets what else came":
                    asked, data = asked[:1], b""
            head = asked.pop(0)
            if self.malformed(head):
                if self.flaw == "believes anything":
                    self.answer(sock, b"GET /x", False)
                elif self.flaw == "waits when it does not understand":
                    time.sleep(20)
                else:
                    self.refuse(sock, 500 if self.flaw == "500 for nonsense" else 400)
                return
            if self.flaw == "takes half a close for a whole one":
                sock.settimeout(0.01)
                with contextlib.suppress(TimeoutError):
                    if not sock.recv(1, socket.MSG_PEEK):
                        return
                sock.settimeout(20)
            self.answer(sock, head, many)
            if b"Connection: close" in head:
                if self.flaw == "does not close":
                    time.sleep(20)
                return

    def receive(self, sock, data):
        """Read until a head is complete: (bytes, None); or (bytes, status to refuse with; 0: no answer)."""
        deadline = time.monotonic() + (20 if self.flaw in ("waits for ever", "takes any head") else PATIENCE_S)
        while b"\r\n\r\n" not in data[-HEAD_MAX:]:
            sock.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                piece = sock.recv(65536)
            except TimeoutError:
                return data, {"greets": 200, "500 for silence": 500}.get(self.flaw, 408 if data else 0)
            if not piece:
                if self.flaw == "stays behind an end":
                    time.sleep(20)
                return data, 0
            if self.flaw != "only whole requests" or piece.endswith(b"\r\n\r\n"):
                data += piece
            if len(data) > HEAD_MAX and data.find(b"\r\n\r\n", 0, HEAD_MAX) < 0:
                if self.flaw != "takes any head":
                    return data, 431
                data = data[-HEAD_MAX:]
        sock.settimeout(20)
        return data, None

    @staticmethod
    def malformed(head):
        first, *lines = head.split(b"\r\n")
        words = first.split(b" ")
        names = [line.partition(b":")[0].lower() for line in lines]
        return (len(words) != 3 or words[0] not in (b"GET", b"HEAD") or words[1][:1] != b"/" or words[2] != b"HTTP/1.1" or
                names.count(b"host") != 1 or b"content-length" in names or b"\0" in head)

    def answer(self, sock, head, many):
        with self.lock:
            self.count += 1
            number = self.count
        if self.flaw == "stalls" and number > 5:
            time.sleep(1.2)
        found = head.split(b" ")[1] == b"/x"
        body = BODY if found else b"nothing here"
        if self.flaw == "garbles" and number % 7 == 6 or self.flaw == "garbles what comes together" and many:
            body = bytes([body[0] ^ 1]) + body[1:]
        if self.flaw == "resets" and many:
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body[:100])
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            raise OSError("its end is a reset")
        status = b"200 OK" if found else b"404 Not Found"
        data = b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n" % (status, len(body))
        sock.sendall(data if head.startswith(b"HEAD") else data + body)

    @staticmethod
    def refuse(sock, status):
        sock.sendall(b"HTTP/1.1 %d Refused\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" % status)
        sock.shutdown(socket.SHUT_WR)
        sock.settimeout(0.2)  # closing with unread bytes would send a reset, which discards the answer
        with contextlib.suppress(OSError):
            while sock.recv(65536):
                pass
