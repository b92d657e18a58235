#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the timeline's model and tests find faults: breaks the schedule in ways that compile,
one at a time, and expects schedule_test.cpp or timeline_test.cpp in src/device to fail.

Usage: scripts/check/check_mutations.py [--programs N] [--only N]

Works on a copy of the last commit in build/mutations. The exit status is 1 when a mutation was not
found, or when its text is no longer in the source.
"""

import argparse
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
COPY = ROOT / "build" / "mutations"
TEST = "src/device/gpemu_device_test"

# The fault, the file, the text, and its replacement.
MUTATIONS = [
    ("of what is ready at once, what was queued last comes first", "timeline.cpp",
     ": first.number > second.number;", ": first.number < second.number;"),
    ("of engines that begin at once, the one that was queued for first comes first",
     "timeline.cpp",
     "next_turn(now_, from), task.start,", "next_turn(now_, from), TimePoint(),"),
    ("work that becomes ready before what has its time does not put it off", "timeline.cpp",
     "const bool in_order = ready >= engine.last_ready;",
     "const bool in_order = ready >= TimePoint();"),
    ("work after a gap is joined with what is before it", "timeline.cpp",
     "last.end == interval.start", "last.end <= interval.start"),
    ("blocking streams do not wait for the legacy default stream", "timeline.cpp",
     "follow(lane, now, *group.legacy, lane.followed);", "static_cast<void>(now);"),
    ("a wait for an event ends when it was queued", "timeline.cpp",
     "task.start = std::max(task.start, mark->time());",
     "task.start = std::max(task.start, task.asked);"),
    ("what follows a round does not put off what became ready later", "timeline.cpp",
     "return engine.last_ready >= end; });", "return engine.last_ready >= end && false; });"),
    ("a party arrives at a round before it was asked to", "schedule.cpp",
     "ready = std::max(ready, task.asked);", "ready = std::max(ready, TimePoint());"),
    ("an arrival is published before the work before it has started", "schedule.cpp",
     "if (task.engine != Task::kWait) return std::nullopt;",
     "if (task.engine != Task::kWait) { ready = std::max(ready, task.end); continue; }"),
    ("a round costs what the last party says", "party.cpp",
     "known.cost = std::max(known.cost, entry->cost);", "known.cost = entry->cost;"),
    ("a round may end before the one before it", "party.cpp",
     "if (round > 0) known.latest =", "if (round > 0 && now < TimePoint()) known.latest ="),
    ("a process that shares an engine does not queue behind the others", "device_sharing.cpp",
     "start = std::max(to_ns(earliest), queued);", "start = to_ns(earliest);"),
    ("an arrival counts before it has passed", "party.cpp",
     ".is_final = is_final || ready <= now",
     ".is_final = is_final || ready <= now + layout::kLongestQueue"),
    ("an arrival that depends on an earlier round is said to depend on the previous one",
     "party.cpp", "static_cast<std::uint32_t>(place - found)",
     "static_cast<std::uint32_t>(std::min<std::ptrdiff_t>(place - found, 1))"),
    ("an early arrival leaves out the work after the round on which it depends", "timeline.cpp",
     "Duration(saturating_add(term.after.count(), expected.busy.count()))", "term.after * 1"),
    ("arrivals stay published when other work delays them", "schedule.cpp",
     "for (Party* const party : parties_) party->take_back(now);", ""),
    ("arrivals are published early although other work may delay them", "timeline.cpp",
     "return ready.epoch == epoch_;", "return true;"),
]


def run(*command, **options):
    return subprocess.run(command, cwd=COPY, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False, **options)


def build_and_test(programs: int) -> str:
    """Returns "passes", "fails" or the compiler's output."""
    built = run("cmake", "--build", "build/dev", "--target", "gpemu_device_test")
    if built.returncode != 0:
        return built.stdout[-2000:]
    environment = dict(os.environ, GPEMU_TEST_PROGRAMS=str(programs))
    try:
        done = run(f"build/dev/{TEST}", "--gtest_filter=Schedule.*:TimelineTest.*",
                   env=environment, timeout=600)
    except subprocess.TimeoutExpired:
        return "fails"  # It hangs.
    return "passes" if done.returncode == 0 else "fails"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=20000, help="random programs for each")
    parser.add_argument("--only", type=int, help="only the mutation of this number")
    options = parser.parse_args()
    subprocess.run(["rm", "-rf", COPY / "src"], check=True)
    COPY.mkdir(parents=True, exist_ok=True)
    archive = subprocess.Popen(["git", "archive", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE)
    # With the present time, so that what an earlier run built of a mutation is built again.
    subprocess.run(["tar", "-x", "-m", "-C", COPY], stdin=archive.stdout, check=True)
    configured = run("cmake", "--preset", "dev", "--log-level=WARNING")
    if configured.returncode != 0:
        sys.exit(configured.stdout)
    if (state := build_and_test(2000)) != "passes":
        sys.exit(f"check_mutations: without a mutation the test does not pass: {state}")
    missed = 0
    for number, (what, file, old, new) in enumerate(MUTATIONS, 1):
        if options.only not in (None, number):
            continue
        path = COPY / "src" / "device" / file
        source = path.read_text()
        if source.count(old) != 1:
            print(f"{number:2} {file}: stands there {source.count(old)} times: {old.strip()}")
            missed += 1
            continue
        path.write_text(source.replace(old, new))
        state = build_and_test(options.programs)
        path.write_text(source)
        found = state == "fails"
        missed += not found
        if not found:
            state = "MISSED" if state == "passes" else state
        print(f"{number:2} {'found' if found else state}: {what}", flush=True)
    print(f"check_mutations: {missed} not found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
