# SPDX-License-Identifier: MIT
"""What the wire tests are made of: a server to start, a strict client, trees of files."""
