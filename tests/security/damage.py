# SPDX-License-Identifier: Apache-2.0
"""Changes the bytes of live segments as whoever may write them could."""

import itertools
import os
import struct
import threading
import time

from bench import DOCUMENTED, NODE, OTHER, OWNER

CHECKSUM_OFFSET = 120
# What the program under `gpemu run` is told, a line each: it attaches, takes memory, and waits.
ERRANDS = "info\nalloc 1048576\nwrite 7\nread\nwork 3\nsynchronize\nfree\n"
CUT_SHORT = "the node's segment was truncated"


def checksum(content, size):
    """FNV-1a by words of eight bytes, as src/device/segment_file.cpp has it."""
    value = 0xCBF29CE484222325
    for offset, (word,) in zip(range(0, size, 8), struct.iter_unpack("<Q", content[:size])):
        value = (value ^ (0 if offset == CHECKSUM_OFFSET else word)) * 0x100000001B3 % 2**64
        value ^= value >> 32
    return value


def sealed(content, size):
    """The content with a checksum that fits it: who writes one part can write the other."""
    seal = struct.pack("<Q", checksum(content, size))
    return content[:CHECKSUM_OFFSET] + seal + content[CHECKSUM_OFFSET + 8 :]


class Segment:
    """The file of a live node, with ways to damage it and to make it whole again."""

    def __init__(self, path):
        self.path = path
        self.whole = path.read_bytes()
        (stored,) = struct.unpack_from("<Q", self.whole, CHECKSUM_OFFSET)
        # What never changes is what the checksum is of.
        self.fixed = next(size for size in range(CHECKSUM_OFFSET + 8, len(self.whole), 8)
                          if checksum(self.whole, size) == stored)
        self.used = [offset for offset in range(self.fixed, len(self.whole)) if self.whole[offset]]

    def mend(self):
        with self.path.open("r+b") as file:
            file.write(self.whole)

    def damage(self, rng):
        """A byte to a page of random, zero or set bits; now and then the file is cut short.

        Returns what was done, in words."""
        length = rng.choice((1, 1, 8, 64, 4096, rng.randint(1, 4096)))
        bits = rng.choice((rng.randbytes(length), bytes(length), b"\xff" * length))
        where = rng.choices(("anywhere", "used", "fixed", "sealed"), (2, 4, 1, 1))[0]
        if where == "anywhere":
            offset = rng.randrange(len(self.whole) - length)
        elif where == "used":
            offset = rng.choice(self.used)
        else:
            offset = rng.randrange(self.fixed)
            bits = bits[: self.fixed - offset]
        with self.path.open("r+b") as file:
            content = file.read()
            bits = bits[: max(0, len(content) - offset)]
            if where == "sealed" and len(content) > self.fixed:
                content = content[:offset] + bits + content[offset + len(bits) :]
                offset, bits = 0, sealed(content, self.fixed)[: self.fixed]
            file.seek(offset)
            file.write(bits)
            if rng.randrange(50) == 0:
                file.truncate(rng.randrange(len(self.whole)))
                where += ", cut short"
        return f"{where}: {len(bits)} bytes at {offset}"


def is_clean(text):
    return not any(ord(c) < 32 and c not in "\n\r\t" for c in text)


def check_patterns(bench):
    """Every word of what never changes, one at a time, in 8 patterns.

    Version 3 of the segment had a lock that processes shared at 104 to 143, its list of locks at
    128 and 136: a pid at 104 hung whoever looked, root too, and patterns over it aborted them."""
    bench.create(name="good")
    segment = Segment(bench.nodes / "good")
    holder = bench.start(bench.actor, "hold", "good", 1)
    patterns = [struct.pack("<Q", number) for number in (
        0, 1, holder.pid, 2**31 - 1, 2**63, 2**64 - 1, 0xA5A5A5A5A5A5A5A5, 0x2F2F1B5D303B0A00)]
    names = []
    for offset, (number, pattern) in itertools.product(
            range(0, segment.fixed, 8), enumerate(patterns)):
        content = segment.whole[:offset] + pattern + segment.whole[offset + 8 :]
        if offset != CHECKSUM_OFFSET and number % 2 == 0:
            content = sealed(content, segment.fixed)
        names.append(f"at-{offset}-{number}")
        (bench.nodes / names[-1]).write_bytes(content)
    for begin, end in ((128, 144), (104, 144)):
        names.append(f"at-{begin}-to-{end}")
        pattern = patterns[6] * ((end - begin) // 8)
        (bench.nodes / names[-1]).write_bytes(segment.whole[:begin] + pattern + segment.whole[end:])
    for owner, said in ((OTHER, "of another user, root's list is without them"),
                        (0, "one's own, they are listed beside the good one")):
        for name in names:
            os.chown(bench.nodes / name, owner, owner)
        for command in (["node", "list"], ["smi", "--period-ms", 1]):
            code, seconds, text = bench.run(bench.gpemu_here, *command)
            shown = all(name in text for name in names[:8]) if owner == 0 else "at-" not in text
            bench.check(
                f"{command[0]}: {len(names)} damaged headers: {said}",
                code == 0 and "good" in text and is_clean(text) and shown and seconds < 20,
                f"exit {code} after {seconds:.1f} s",
            )
    for name in (b"/dev/pts/0", b"../../../etc/passwd", b"V100.toml"):
        at = segment.whole.index(b"V100-PCIE-32GB\0")
        content = segment.whole[:at] + name.ljust(64, b"\0") + segment.whole[at + 64 :]
        (bench.nodes / "named").write_bytes(sealed(content, segment.fixed))
        os.chown(bench.nodes / "named", OTHER, OTHER)
        answers = [bench.run(*command, timeout=10) for command in (
            (bench.gpemu_here, "smi", "--period-ms", 1, f"{OTHER}/named"),
            (bench.gpemu_here, "run", "--node", f"{OTHER}/named", "--", "true"),
            (bench.gpemu_here, "train", "synthetic", "--node", f"{OTHER}/named", "--model",
             "resnet18"))]
        bench.check(f"a GPU named {name.decode()}: no path is opened",
                    {code for code, _, _ in answers} == {6}, str([code for code, _, _ in answers]))
    for name in ("at-104-2", "at-120-6", "at-128-6", "at-136-6", "at-128-to-144", "at-104-to-144"):
        os.chown(bench.nodes / name, OTHER, OTHER)
        answers = [bench.run(bench.gpemu_here, *command, f"{OTHER}/{name}", timeout=10)
                   for command in (["smi", "--period-ms", 1], ["node", "show"])]
        answers.append(bench.run(bench.actor, "take", f"{OTHER}/{name}", 1, timeout=10))
        codes = [code for code, _, _ in answers]
        bench.check(f"{name}: opened by name", set(codes) <= {0, 6, 8}, str(codes))
    bench.clear()


def check_damage(bench, damages, rng):
    """Another user changes a live segment of theirs, and the same is done to one of ours: half of
    the time before a command starts, half of the time while it works."""
    theirs = f"{OWNER}/theirs"
    bench.create(mib=16384, mode="666", user=OWNER, name="theirs")
    bench.create(name="ours")
    bench.start(bench.actor, "hold", "theirs", 100, user=OWNER)
    segments = [Segment(bench.nodes / name) for name in ("theirs", "ours")]
    client = [bench.actor, "take", theirs, 64]
    errands = bench.folder / "errands"
    errands.write_text(ERRANDS, encoding="utf-8")
    program = ["sh", "-c", f"{bench.cuda_program} <{errands}"] if bench.cuda_program else client
    commands = {
        "smi": [bench.gpemu_here, "smi", theirs, "--period-ms", 20],
        "smi of all": [bench.gpemu_here, "smi", "--period-ms", 1],
        "node list": [bench.gpemu_here, "node", "list"],
        "node show": [bench.gpemu_here, "node", "show", theirs],
        "train": [bench.gpemu_here, "train", "synthetic", "--model", "resnet18", "--batch", 8,
                  "--steps", 3, "--node", theirs],
        "run": [bench.gpemu_here, "run", "--quiet", "--node", theirs, "--", *program],
        "client": client,
    }
    codes, slowest, attached, bad = {}, 0.0, 0, 0
    for number in itertools.count():
        # Chance must let a program use a damaged node, too.
        if number == 2 * damages or (number >= damages and attached > 0):
            break
        # Damages add up, four at a time.
        if number % 4 == 0:
            for segment in segments:
                segment.mend()
        name = rng.choice(tuple(commands)) if number < damages else "run"
        done = []
        spoil = threading.Timer(rng.choice((0, 0.1)) * rng.random(), lambda: done.extend(
            segment.damage(rng) for segment in segments))
        spoil.start()
        if rng.randrange(2) == 0:
            spoil.join()
        code, seconds, text = bench.run(*commands[name])
        spoil.join()
        codes.setdefault(name, {}).setdefault(code, 0)
        codes[name][code] += 1
        slowest = max(slowest, seconds)
        # The program says after each errand how it went: 0 and the answer.
        attached += name == "run" and code == 0 and ("\n0 7 7" in text or "holds" in text)
        good = code in DOCUMENTED and is_clean(text)
        if code == 6:
            good = good and ("gpemu node remove" in text or CUT_SHORT in text)
        bad += not good
        bench.check(f"quiet: damage {number}", good, f"{name}: {done}: exit {code}\n{text}")
    for name, counts in codes.items():
        print(f"      {name} {sum(counts.values())} times: exit codes "
              f"{dict(sorted(counts.items()))}")
    bench.check(f"{damages} damages: every command ends with a documented code", bad == 0,
                f"slowest {slowest:.1f} s")
    bench.check("and programs under gpemu run did use the damaged node", attached > 0,
                f"{attached} of {sum(codes.get('run', {}).values())}")
    for segment in segments:
        segment.mend()
    code, _, text = bench.run(bench.gpemu, "smi", theirs, "--period-ms", 1)
    bench.check("and what was damaged works when it is whole again", code == 0, text.strip()[:200])
    bench.clear()


def wait_until_used(bench, node):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        _, _, text = bench.run(bench.gpemu, "node", "show", node, "--json")
        if '"processes": 1' in text:
            return
        time.sleep(0.05)


def check_cut_short(bench):
    """A segment that is cut short while somebody has it mapped: the next access is a SIGBUS."""
    forever = {
        "train": [bench.gpemu_here, "train", "synthetic", "--model", "resnet18", "--batch", 8,
                  "--steps", 100_000, "--node", NODE],
        "client": [bench.actor, "work", NODE, 1],
    }
    if bench.cuda_program:
        words = "while echo info; do sleep 0.01; done"
        forever["run"] = [bench.gpemu_here, "run", "--quiet", "--node", NODE, "--",
                          "sh", "-c", f"({words}) | {bench.cuda_program}"]
    for name, command in forever.items():
        bench.create(mib=16384)
        cut = threading.Thread(target=lambda: (
            wait_until_used(bench, NODE), os.truncate(bench.nodes / NODE, 0)))
        cut.start()
        code, seconds, text = bench.run(*command, timeout=60)
        cut.join()
        bench.check(f"{name}: cut short while it works, it ends with a message",
                    code == 6 and CUT_SHORT in text, f"exit {code}: {text.strip()[-300:]}")
        bench.clear()
