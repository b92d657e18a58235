#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws hostile parties at random and checks that none makes a command wait for longer than its
stated time (docs/reference/security.md), costs it more than 64 MB, or crashes it.

A party is a node, a caller or a worker of a dispatcher, a dispatcher, or an object store. It is
silent, slow, huge, says garbage or what is not true, and closes its connection when it likes. All
are on the loopback interface. Callers and workers come in crowds, to a dispatcher at which an
honest run must still end well. Ends with 77 without gRPC or libcurl.

Usage: scripts/check/check_hostile_parties.py [--count N] [--seed N] [--at-once N] [--only KIND]
       [--gpemu COMMAND]
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "integration"))
import grpc_caller  # noqa: E402
from grpc_caller import frame, literal, message  # noqa: E402

SKIPPED = 77
PATIENCE_S = 1
# A command may wait for a party to come, for its answer, and for what it owes; and it takes time to
# start and to end, more so if others run beside it.
MOST_S = 3 * PATIENCE_S + 6
# A listing may have a millisecond for each object, of which it may have 1.3 million; the one here
# is as fast as Python.
ENDLESS_S = 60
MOST_BYTES = 64_000_000
CROWD = 25  # hostile callers at a time
# Documented exit codes. A party that is not there in time, says what none says, or too much.
CODES = {0, 2, 3, 5, 6, 7, 9}
MAGIC = 0x3172656570757067  # of the first message of a node


def text(value):
    return struct.pack("<I", len(value)) + value


def listen():
    """Returns a socket that listens at a port that was free; another one may take it meanwhile."""
    while True:
        try:
            return socket.create_server(("127.0.0.1", 0), backlog=64)
        except OSError:
            time.sleep(0.01)


class Party:
    """A server that does to each connection what `act` does."""

    def __init__(self, act):
        self.listener = listen()
        self.port = self.listener.getsockname()[1]
        self.ended = threading.Event()
        self.act = act
        self.connections = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while not self.ended.is_set():
            try:
                connection = self.listener.accept()[0]
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        try:
            connection.settimeout(MOST_S * 2)
            self.act(self, connection)
        except (OSError, ValueError, struct.error):
            pass

    def close(self):
        self.ended.set()
        self.listener.close()
        for connection in self.connections:
            connection.close()


# ---- What any party does with a connection


def silent(_draw):
    return lambda party, connection: party.ended.wait()


def closing(draw):
    after = draw.choice([0, 0, 0.05, 0.3])

    def act(party, connection):
        party.ended.wait(after)
        connection.close()

    return act


def garbage(draw):
    data = draw.randbytes(draw.choice([1, 10, 1000, 100_000]))

    def act(party, connection):
        connection.sendall(data)
        if draw.random() < 0.5:
            connection.close()
        else:
            party.ended.wait()

    return act


def drip_of(data):
    def act(party, connection):
        for byte in data * 1000:
            if party.ended.wait(0.05):
                return
            connection.sendall(bytes([byte]))

    return act


def slow(draw):
    return drip_of(draw.randbytes(10))


def flood(draw):
    data = draw.randbytes(65536)

    def act(party, connection):
        while not party.ended.is_set():
            connection.sendall(data)

    return act


ANY = [silent, closing, garbage, slow, flood]


# ---- Object stores


def http_answer(draw):
    """An answer that begins well."""
    entry = (b"<Contents><Key>photos/a/%d.jpg</Key><Size>%d</Size></Contents>"
             % (draw.randrange(10), draw.choice([0, 5, -1, 1 << 62])))
    page = (b"<ListBucketResult>" + entry * draw.choice([1, 100])
            + draw.choice([b"", b"<NextContinuationToken>%d</NextContinuationToken>"
                           % draw.randrange(99)]) + b"</ListBucketResult>")
    kind = draw.choice(["page", "drip", "long", "headers", "short", "status", "huge", "endless"])

    def act(party, connection):
        number = 0
        while True:
            request = b""
            while b"\r\n\r\n" not in request:
                got = connection.recv(65536)
                if not got:
                    return
                request += got
            number += 1
            if kind == "headers":
                connection.sendall(b"HTTP/1.1 200 OK\r\n")
                while not party.ended.is_set():
                    connection.sendall(b"X: " + b"x" * 5000 + b"\r\n")
            if kind == "status":
                connection.sendall(b"HTTP/1.1 %d X\r\nContent-Length: 0\r\n\r\n"
                                   % draw.choice([100, 204, 302, 404, 500, 503, 999]))
                continue
            length = {"long": len(page) + 1000, "short": max(0, len(page) - 10),
                      "huge": 1 << 40}.get(kind, len(page))
            body = page
            if kind == "endless":
                body = (b"<ListBucketResult>" + b"".join(
                    b"<Contents><Key>photos/a/%09d%04d.jpg</Key><Size>5</Size></Contents>"
                    % (number, i) for i in range(2000))
                        + b"<NextContinuationToken>%d</NextContinuationToken></ListBucketResult>"
                        % number)
                length = len(body)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length)
            if kind == "drip":
                drip_of(body)(party, connection)
            connection.sendall(body)
            while kind == "huge" and not party.ended.is_set():
                connection.sendall(b"x" * 65536)

    if kind == "endless":
        act.most_s = ENDLESS_S
    return act


def try_store(draw, place):
    party = Party(draw.choice([*ANY, http_answer, http_answer, http_answer])(draw))
    environment = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{party.port}", "no_proxy": "*"}
    return party, ["data", "show", "s3://photos/photos"], environment


# ---- Dispatchers and workers


def http2_answer(draw):
    """A gRPC server that understands a call and answers what it likes."""
    kind = draw.choice(["silent", "drip", "huge", "lie", "lie", "lie", "status", "reset",
                        "headers"])

    def lie(block):
        if b"Open" in block or draw.random() < 0.3:
            return struct.pack("<QQ", 1, 2) + text(b"photos") + struct.pack(
                "<QQ", draw.choice([0, 4, 1 << 60]), 100)
        if b"Follow" in block or draw.random() < 0.3:
            count = draw.choice([0, 1, 300, 100_000, (1 << 32) - 1])
            named = min(count, draw.choice([0, 3, 400]))
            return bytes([draw.randrange(2)]) + struct.pack("<I", count) + b"".join(
                struct.pack("<Q", draw.randrange(1 << 40)) + text(b"127.0.0.1:%d" %
                                                                   draw.randrange(1, 65536))
                for _ in range(named))
        if b"Beat" in block:
            return struct.pack("<I", draw.choice([0, 1, 1 << 31])) + struct.pack(
                "<QiiiQ", 1, draw.choice([1, -1, 1 << 30]), 1, draw.choice([8, 1 << 20]), 0)
        return draw.randbytes(draw.choice([0, 1, 25, 1000, 16000]))

    def act(party, connection):
        connection.sendall(frame(grpc_caller.SETTINGS, 0, 0))
        rest = connection.recv(len(grpc_caller.PREFACE), socket.MSG_WAITALL)
        rest, blocks = b"", {}
        while True:
            while len(rest) < 9 or len(rest) < 9 + int.from_bytes(rest[:3], "big"):
                got = connection.recv(65536)
                if not got:
                    return
                rest += got
            size, what, flags = int.from_bytes(rest[:3], "big"), rest[3], rest[4]
            stream = int.from_bytes(rest[5:9], "big")
            payload, rest = rest[9:9 + size], rest[9 + size:]
            if what == grpc_caller.SETTINGS and not flags & grpc_caller.ACK:
                connection.sendall(frame(grpc_caller.SETTINGS, grpc_caller.ACK, 0))
            if what == grpc_caller.PING and not flags & grpc_caller.ACK:
                connection.sendall(frame(grpc_caller.PING, grpc_caller.ACK, 0, payload))
            if what == grpc_caller.HEADERS:
                blocks[stream] = payload
            if what not in (grpc_caller.HEADERS, grpc_caller.DATA) or not flags & 1:
                continue
            if kind == "silent":
                continue
            if kind == "reset":
                connection.sendall(frame(grpc_caller.RST_STREAM, 0, stream, b"\0\0\0\2"))
                continue
            head = b"\x88" + literal(b"content-type", b"application/grpc")
            connection.sendall(frame(grpc_caller.HEADERS, 4, stream, head))
            if kind == "headers":
                while not party.ended.is_set():
                    connection.sendall(frame(grpc_caller.HEADERS, 0, stream + 2,
                                             literal(b"x", b"y" * 100) * 100))
            if kind == "huge":
                connection.sendall(frame(grpc_caller.DATA, 0, stream, message(b"x", 1500 << 20)))
                continue
            if kind == "drip":
                for byte in message(b"x" * 1000):
                    if party.ended.wait(0.05):
                        return
                    connection.sendall(frame(grpc_caller.DATA, 0, stream, bytes([byte])))
            body = lie(blocks.get(stream, b""))
            for begin in range(0, len(body) + 5, 16000):
                connection.sendall(frame(grpc_caller.DATA, 0, stream,
                                         message(body)[begin:begin + 16000]))
            status = b"0" if kind == "lie" else b"%d" % draw.randrange(1, 17)
            connection.sendall(frame(grpc_caller.HEADERS, 5, stream, literal(b"grpc-status",
                                                                             status)))

    return act


def try_dispatcher(draw, place):
    party = Party(draw.choice([*ANY, *[http2_answer] * 8])(draw))
    address = f"127.0.0.1:{party.port}"
    if draw.random() < 0.3:
        return party, ["data", "work", address, "--workers", "1", "--data", place.photos], {}
    return party, ["train", "service", address, "--gpu", "T4", "--model", "resnet18", "--batch",
                   "4", "--no-pin-memory", "--quiet"], {}


# ---- Nodes


def hello(draw, purpose, group, rank, nodes, port, settings=b""):
    magic = MAGIC if draw.random() < 0.95 else draw.randrange(1 << 64)
    return struct.pack("<QBQIIH", magic, purpose, group, rank, nodes, port) + text(settings)


def framed(payload, size=None):
    return struct.pack("<I", len(payload) if size is None else size) + payload


def node_zero(draw):
    """The first node of a group of two."""
    kind = draw.choice(["silent", "refuses", "lies", "huge", "late", "never agrees", "floods",
                        "garbage"])

    def act(party, connection):
        size = struct.unpack("<I", connection.recv(4, socket.MSG_WAITALL))[0]
        connection.recv(size, socket.MSG_WAITALL)
        addresses = text(b"127.0.0.1") + struct.pack("<H", party.port)
        if kind == "lies":
            addresses = text(draw.choice([b"", b"example.invalid", b"x" * 1000])) + b"\0\0"
        welcome = text(b"no" if kind == "refuses" else b"") + struct.pack(
            "<QI", 7, draw.choice([2, 2, 1 << 31]) if kind == "lies" else 2) + addresses * 2
        if kind == "silent":
            party.ended.wait()
        if kind == "late":
            drip_of(framed(welcome))(party, connection)
        connection.sendall(framed(welcome, (1 << 32) - 1 if kind == "huge" else None))
        if kind == "floods":
            while not party.ended.is_set():
                connection.sendall(framed(b"\3") * 1000)
        if kind == "garbage":
            while not party.ended.is_set():
                connection.sendall(framed(draw.randbytes(draw.choice([1, 20, 60000]))))
        party.ended.wait()

    return act


def come_to(party, connection, draw, settings):
    """Joins the first node as the second one, and then does what it likes."""
    kind = draw.choice(["half a hello", "hello", "silent", "finished", "flood", "huge", "far ahead",
                        "arrives", "closes", "garbage"])
    whole = framed(hello(draw, draw.choice([1, 1, 1, 2, 9]), 0, draw.choice([1, 1, 1, 5]),
                         draw.choice([2, 2, 2, 3]), party.port, settings))
    if kind == "half a hello":
        connection.sendall(whole[:draw.randrange(len(whole))])
        return party.ended.wait()
    connection.sendall(whole)
    if kind == "closes":
        return connection.close()
    if kind == "hello":
        return party.ended.wait()
    size = struct.unpack("<I", connection.recv(4, socket.MSG_WAITALL))[0]
    connection.recv(size, socket.MSG_WAITALL)
    arrive = struct.pack("<BIQIII", 1, 0, 1, 0, 0, 0)
    if kind == "finished":
        connection.sendall(framed(b"\3"))
    elif kind == "huge":
        connection.sendall(framed(b"", draw.choice([17 << 20, 1 << 30, (1 << 32) - 1])))
    elif kind == "far ahead":
        connection.sendall(framed(struct.pack("<BIQIII", 1, 0, 1 << 50, 0, 0, 0)))
    elif kind == "arrives":
        connection.sendall(framed(arrive) * draw.choice([1, 2, 5]))
    elif kind == "garbage":
        connection.sendall(framed(draw.randbytes(draw.choice([1, 30, 5000]))))
    while kind == "flood" and not party.ended.is_set():
        connection.sendall(framed(b"\3") * 1000)
    return party.ended.wait()


def free_port():
    with listen() as listener:
        return listener.getsockname()[1]


def try_node(draw, place):
    words = ["train", "files", place.photos, "--gpu", "T4", "--model", "resnet18", "--batch", "4",
             "--no-pin-memory", "--quiet", "--workers", "1"]
    if draw.random() < 0.4:
        party = Party(draw.choice([*ANY, *[node_zero] * 6])(draw))
        return party, [*words, "--join", f"1/2@127.0.0.1:{party.port}"], {}
    port = free_port()
    party = Party(draw.choice(ANY)(draw))  # At the address that it gives.

    def come():
        for _ in range(100):
            try:
                connection = socket.create_connection(("127.0.0.1", port), timeout=MOST_S * 2)
                break
            except OSError:
                if party.ended.wait(0.02):
                    return
        else:
            return
        party.connections.append(connection)
        try:
            come_to(party, connection, draw, place.settings.encode())
        except (OSError, ValueError, struct.error):
            pass

    for _ in range(draw.choice([1, 1, 1, 3])):
        threading.Thread(target=come, daemon=True).start()
    return party, [*words, "--join", f"0/2@127.0.0.1:{port}"], {}


# ---- Running


def peak_of(pid):
    """The most bytes that a process has had in memory since it began to run its program."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return 1024 * int((status.partition("VmHWM:")[2].split() or ["0"])[0])


class Place:
    """Where the commands run, and what they take without hostile parties."""

    def __init__(self, gpemu, folder):
        self.gpemu, self.folder = str(gpemu), pathlib.Path(folder)
        self.photos = str(self.folder / "photos")
        self.environment = {**os.environ, "GPEMU_NODE_DIR": str(self.folder / "nodes"),
                            "TMPDIR": str(self.folder)}
        self.settings = ""
        subprocess.run([self.gpemu, "data", "make", self.photos, "--images", "40", "--quiet"],
                       check=True, env=self.environment)
        honest = ["train", "files", self.photos, "--gpu", "T4", "--model", "resnet18", "--batch",
                  "4", "--no-pin-memory", "--quiet", "--workers", "1"]
        self.bytes = max(self.run(honest)[2], self.run(["data", "show", self.photos])[2])
        # What nodes must have in common, as the first one says it to one that differs.
        port = free_port()
        first = subprocess.Popen([self.gpemu, *honest, "--join", f"0/2@127.0.0.1:{port}"],
                                 env=self.environment, stderr=subprocess.PIPE, text=True)
        subprocess.run([self.gpemu, *honest, "--seed", "1", "--join", f"1/2@127.0.0.1:{port}"],
                       env=self.environment, check=False, capture_output=True)
        said = first.communicate(timeout=60)[1]
        self.settings = said.partition("node 0 has ")[2].partition(", and node 1")[0]
        assert self.settings, said

    def run(self, words, environment=None, most_s=60):
        """Returns the exit code, the seconds, the peak of the memory, and what was said."""
        with tempfile.TemporaryFile(dir=self.folder) as errors:
            begin = time.monotonic()
            process = subprocess.Popen([self.gpemu, *words], stdout=subprocess.DEVNULL,
                                       stderr=errors, env={**self.environment,
                                                           **(environment or {})})
            peak = 0
            # The kernel's own ru_maxrss also counts this process, as which the command began.
            while process.poll() is None:
                peak = max(peak, peak_of(process.pid))
                if time.monotonic() - begin > most_s:
                    process.kill()
                time.sleep(0.01)
            seconds = time.monotonic() - begin
            errors.seek(0)
            return process.returncode, seconds, peak, errors.read().decode(errors="replace")


def try_one(kind, seed, place):
    """Returns the kind, what is wrong or "", the seconds, and the peak of the memory."""
    draw = random.Random(seed)
    party, words, environment = KINDS[kind](draw, place)
    try:
        code, seconds, peak, said = place.run([*words, "--patience", str(PATIENCE_S)], environment,
                                              2 * ENDLESS_S)
    finally:
        party.close()
    wrong = ""
    if seconds > getattr(party.act, "most_s", MOST_S):
        wrong = f"took {seconds:.1f} s"
    elif code not in CODES:
        wrong = f"ended with {code}"
    elif peak > place.bytes + MOST_BYTES:
        wrong = f"took {peak / 1e6:.0f} MB, {place.bytes / 1e6:.0f} without"
    return kind, f"{wrong}: {' '.join(words)}: {said[-300:]}" if wrong else "", seconds, peak


KINDS = {"store": try_store, "dispatcher": try_dispatcher, "node": try_node}


class Service:
    """An honest dispatcher and worker, to which crowds of hostile callers come."""

    def __init__(self, place):
        self.place = place
        self.processes = []
        self.address = self.start("data", "dispatch", place.photos, "--listen", "127.0.0.1:0")
        self.worker = self.start("data", "work", self.address, "--workers", "1")
        self.honest()
        self.peaks = [peak_of(process.pid) for process in self.processes]

    def start(self, *words):
        process = subprocess.Popen([self.place.gpemu, *words], env=self.place.environment,
                                   stdout=subprocess.PIPE, text=True)
        self.processes.append(process)
        return process.stdout.readline().split(" at ")[1].split(";")[0]

    def honest(self):
        return self.place.run(["train", "service", self.address, "--gpu", "T4", "--model",
                               "resnet18", "--batch", "4", "--no-pin-memory", "--quiet",
                               "--patience", str(20 * PATIENCE_S)], most_s=60 * PATIENCE_S)

    def call(self, draw, callers):
        """A hostile caller of the dispatcher or the worker; some are workers themselves."""
        address = self.address if draw.random() < 0.7 else self.worker
        kind = draw.choice(["silent", "garbage", "preface", "call", "part", "huge", "lie", "lie",
                            "join", "join"])
        if kind in ("silent", "garbage"):
            host, port = address.split(":")
            caller = socket.create_connection((host, int(port)), timeout=10)
            callers.append(caller)
            if kind == "garbage":
                caller.sendall(draw.randbytes(draw.choice([1, 100, 5000])))
            return
        caller = grpc_caller.Caller(address, timeout=10)
        callers.append(caller)
        if kind == "preface":
            return
        method = draw.choice(["Join", "Beat", "Work", "Open", "Follow", "Next", "None"])
        caller.begin("/gpemu.DataService/" + ("Join" if kind == "join" else method))
        if kind == "part":
            caller.send(message(b"x" * 100)[:draw.randrange(105)])
        elif kind == "huge":
            caller.send(message(b"x" * 1000, draw.choice([2 << 20, 512 << 20, 1500 << 20])))
        elif kind == "lie":
            caller.send(message(draw.choice([
                draw.randbytes(draw.randrange(100)), struct.pack("<QQ", 1, 2), text(b"a" * 200),
                text(b"job") + struct.pack("<iiiQ", 1 << 30, 1, 4096, 0),
                struct.pack("<QQII", 1, 2, 0, 1 << 31)])), last=True)
        elif kind == "join":
            party = Party(draw.choice([*ANY, *[http2_answer] * 4])(draw))
            callers.append(party)
            caller.send(message(text(b"127.0.0.1:%d" % party.port)), last=True)

    def crowd(self, seed, count):
        """Returns what is wrong; "" for nothing."""
        draw, callers = random.Random(seed), []
        for _ in range(count):
            try:
                self.call(draw, callers)
            except OSError:
                pass  # It has been sent away.
        code, seconds, _, said = self.honest()
        for caller in callers:
            caller.close()
        if code != 0:
            return f"an honest run ended with {code} after {seconds:.1f} s: {said[-300:]}"
        for process, before in zip(self.processes, self.peaks):
            if process.poll() is not None:
                return f"{' '.join(process.args[1:3])} ended with {process.returncode}"
            if peak_of(process.pid) > before + MOST_BYTES:
                return (f"{' '.join(process.args[1:3])} took {peak_of(process.pid) / 1e6:.0f} MB, "
                        f"{before / 1e6:.0f} before")
        return ""

    def close(self):
        for process in self.processes:
            process.send_signal(signal.SIGINT)
        return [process.wait(timeout=60) for process in self.processes]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=400, help="hostile parties")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=4 * (os.cpu_count() or 1))
    parser.add_argument("--only", choices=[*KINDS, "caller"], help="this kind of party")
    parser.add_argument("--gpemu", default=ROOT / "build/dev/tools/gpemu")
    arguments = parser.parse_args()
    kinds = [arguments.only] if arguments.only else [*KINDS, "caller"]
    counts = {kind: arguments.count // len(kinds) for kind in kinds}
    faults = collections.defaultdict(list)
    done = 0
    most, peaks = collections.defaultdict(float), collections.defaultdict(int)
    with tempfile.TemporaryDirectory(prefix="gpemu_hostile_") as folder:
        probe = subprocess.run(
            [arguments.gpemu, "data", "work", "127.0.0.1:1", "--patience", "0.1"], check=False,
            capture_output=True, text=True)
        if "lacks" in probe.stderr:
            print("skipped: this build has no gRPC")
            return SKIPPED
        place = Place(arguments.gpemu, folder)
        cases = [(kind, arguments.seed * 1_000_003 + i) for kind in KINDS if kind in kinds
                 for i in range(counts[kind])]
        random.Random(arguments.seed).shuffle(cases)
        with concurrent.futures.ThreadPoolExecutor(arguments.at_once) as pool:
            for kind, wrong, seconds, peak in pool.map(lambda case: try_one(*case, place), cases):
                most[kind] = max(most[kind], seconds)
                peaks[kind] = max(peaks[kind], peak)
                done += 1
                if done % 500 == 0:
                    print(f"{done} parties, {sum(map(len, faults.values()))} faults", flush=True)
                if wrong:
                    faults[kind].append(wrong)
                    print(f"FAILED {kind}: {wrong}", flush=True)
        if "caller" in kinds:
            service = Service(place)
            for i in range(0, counts["caller"], CROWD):
                wrong = service.crowd(arguments.seed * 1_000_003 + i,
                                      min(CROWD, counts["caller"] - i))
                if wrong:
                    faults["caller"].append(wrong)
                    print(f"FAILED caller: {wrong}", flush=True)
            if service.close() != [0, 0]:
                faults["caller"].append("the service did not end well")
    for kind in kinds:
        longest = (f", {most[kind]:.1f} s and {peaks[kind] / 1e6:.0f} MB at most" if kind in most
                   else "")
        print(f"{kind}: {counts[kind]} parties{longest}, {len(faults[kind])} faults")
    return 1 if any(faults.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
