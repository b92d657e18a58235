# SPDX-License-Identifier: Apache-2.0
"""As much of HTTP/2 and gRPC as a caller needs that says what no caller says. Nothing is encoded by
Huffman's code, and no answer is understood but the status of a call.

Source: RFC 9113 (HTTP/2), RFC 7541 (HPACK), gRPC's "gRPC over HTTP2".
"""

import socket
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(
        ">I", stream) + payload


def literal(name, value):
    """A header that is not added to the table. Requires: both are shorter than 127 bytes."""
    return bytes([0, len(name)]) + name + bytes([len(value)]) + value


def message(payload, size=None):
    """A message with its size, which may be another one."""
    return b"\0" + struct.pack(">I", len(payload) if size is None else size) + payload


class Caller:
    """A connection to a gRPC server."""

    def __init__(self, address, timeout=60):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=timeout)
        self.socket.sendall(PREFACE + frame(SETTINGS, 0, 0))
        self.stream = -1

    def begin(self, method, *headers):
        """Begins a call, without its request."""
        self.stream += 2
        block = (literal(b":method", b"POST") + literal(b":scheme", b"http") +
                 literal(b":path", method.encode()) + literal(b":authority", b"test") +
                 literal(b"content-type", b"application/grpc") + literal(b"te", b"trailers") +
                 b"".join(literal(*header) for header in headers))
        self.socket.sendall(frame(HEADERS, END_HEADERS, self.stream, block))

    def send(self, payload, last=False):
        """Sends a part of a request, of at most 16 KiB."""
        self.socket.sendall(frame(DATA, END_STREAM if last else 0, self.stream, payload))

    def status(self):
        """Waits for the end of the call. Returns its status, or None: the stream was reset or the
        connection closed."""
        rest = b""
        while True:
            while len(rest) < 9 or len(rest) < 9 + int.from_bytes(rest[:3], "big"):
                got = self.socket.recv(65536)
                if not got:
                    return None
                rest += got
            size, kind, flags = int.from_bytes(rest[:3], "big"), rest[3], rest[4]
            stream = int.from_bytes(rest[5:9], "big")
            payload, rest = rest[9:9 + size], rest[9 + size:]
            if kind == SETTINGS and not flags & ACK:
                self.socket.sendall(frame(SETTINGS, ACK, 0))
            elif kind == PING and not flags & ACK:
                self.socket.sendall(frame(PING, ACK, 0, payload))
            elif kind == GOAWAY or (kind == RST_STREAM and stream == self.stream):
                return None
            elif kind == HEADERS and stream == self.stream and flags & END_STREAM:
                found = payload.partition(b"grpc-status")[2]
                return int(found[1:1 + found[0]]) if found else None

    def close(self):
        self.socket.close()
