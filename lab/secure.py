# SPDX-License-Identifier: MIT
"""secure.py - https between the lab's client and every server: one certificate, and one cipher that all must choose.

A scenario with `tls = true` is asked over TLS.  Each run makes its own certificate, which no other program trusts.
"""
import http.client
import os
import ssl
import subprocess
from typing import NamedTuple

from far import Far
from rig import PATIENCE_S, SETUP, Broken

CIPHER = "TLS_AES_256_GCM_SHA384"  # OpenSSL's first choice, of TLS 1.3; a server that took another one would do other work


class Certificate(NamedTuple):
    cert: str  # paths of PEM files
    key: str


def certificate(folder):
    """The certificate of this run, made when it is first wanted."""
    made = Certificate(os.path.join(folder, "tls-cert.pem"), os.path.join(folder, "tls-key.pem"))
    if os.path.exists(made.cert):
        return made
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-days", "2", "-subj", "/CN=rung lab",
            "-addext", f"subjectAltName=IP:{Far.address}", "-keyout", made.key, "-out", made.cert + ".new"]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=PATIENCE_S, check=False)
    except FileNotFoundError:
        raise Broken(f"openssl is not installed ({SETUP})") from None
    if done.returncode:
        raise Broken(f"openssl makes no certificate: {done.stdout.strip()[-300:]}")
    os.chmod(made.key, 0o644)  # a server that gives up its rights reads it again
    os.rename(made.cert + ".new", made.cert)
    return made


def connection(port, tls):
    """A connection of http.client; what a server proves of itself is checked by rung load."""
    if not tls:
        return http.client.HTTPConnection(Far.address, port, timeout=PATIENCE_S)
    context = ssl.create_default_context(cafile=tls.cert)
    return http.client.HTTPSConnection(Far.address, port, timeout=PATIENCE_S, context=context)


def check(name, told):
    """told: what rung load says of its handshakes.  Broken: they were not those that are compared."""
    if told["cipher"] != CIPHER or told["others"]:
        raise Broken(f"{name} chose {told['cipher']}, and others {told['others']} times; compared is {CIPHER}")
