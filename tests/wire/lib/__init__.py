# SPDX-License-Identifier: MIT
"""The parts of the wire tests: a server to start, a strict client, trees of files."""
