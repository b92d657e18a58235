#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Executes the commands of README.md and docs/ as they are written, and compares their output.

Usage: scripts/check/check_docs.py [OPTION...] [PAGE...]      (--help lists the options)

Each page is executed from top to bottom in one shell: in a fresh home folder, in a copy of the
repository, with gpemu on the path; by root as root and then as an ordinary user who may lock 8 MiB
of memory. The language of a fenced block says what the block is:

  sh        commands, each of which must succeed
  console   commands after "$ ", and below each what it prints
  python    a program
  others    only shown (text, toml, csv, ...)

Output is compared without its numbers, units and widths of columns. A line "..." stands for any
number of lines. A comment on the line before a block, which readers do not see, changes that:
<!-- check: exact; exit 4 -->, with any of

  exact           the output is the same everywhere and must match to the byte; `make test` runs the
                  blocks that are marked so, and only those
  run             the output depends on the machine and is not compared
  exit N          the last command ends with this exit code
  needs WHAT      executed with --with WHAT only: torch (downloads 3 GB of PyTorch or NVIDIA's
                  compiler), build (compiles), idle (takes minutes and wants an idle machine)
  before COMMAND  executed first, unseen by readers
  skip REASON     not executed
"""

import argparse
import dataclasses
import difflib
import os
import pathlib
import re
import resource
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
ORDINARY_USER = 64321  # An id that no system gives out; it needs no entry in /etc/passwd.
LOCKABLE_BYTES = 8 << 20  # Debian's limit for ordinary users.
EXECUTED = ("sh", "console", "python")
NEEDS = ("torch", "build", "idle")
# Pages of which every command is checked, because newcomers follow them.
FOLLOWED = re.compile(r"(examples/cuda/)?README\.md|docs/how-to/.*\.md")
# Temporary output of a terminal, and lines that a busy machine adds.
PASSING = re.compile(r"[\w ]+: \d+/\d+ \w+, .* left|gpemu: .*: (recording|\d+ steps in .* s)|"
                     r"warning: the host was too busy .*")
PASSED_ON = re.compile(r"(PIP|CCACHE|CMAKE)_\w+|(https?|no)_proxy", re.IGNORECASE)


class Fault(Exception):
    """A fault in the text of a block."""


@dataclasses.dataclass
class Step:
    """A command of a block, with the lines of its page that hold its expected output."""

    command: str
    line: int  # Where the command begins, from 1.
    output: range  # Indices of lines; empty where no output is shown.


@dataclasses.dataclass
class Block:
    """A fenced block of a page."""

    language: str
    line: int  # That of the opening fence, from 1.
    steps: list
    mode: str = "words"  # How output is compared: exact, words, run.
    exit_code: int = 0
    needs: str = ""
    before: list = dataclasses.field(default_factory=list)
    skip: str = ""


def apply_directives(block, text):
    """Applies a comment to a block."""
    if text.startswith("skip "):
        block.skip = text.removeprefix("skip ").strip()
        return
    for directive in filter(None, (part.strip() for part in text.split(";"))):
        word, _, argument = directive.partition(" ")
        argument = argument.strip()
        if word in ("exact", "run") and not argument:
            block.mode = word
        elif word == "exit" and argument.isdigit():
            block.exit_code = int(argument)
        elif word == "needs" and argument in NEEDS:
            block.needs = argument
        elif word == "before" and argument:
            block.before.append(argument)
        else:
            raise Fault(f"'{directive}' is not a directive; scripts/check/check_docs.py lists them")


def complete(command):
    """Returns whether a shell would execute these lines instead of asking for more."""
    if command.endswith("\\"):
        return False
    parsed = subprocess.run(["bash", "-n", "-c", command], capture_output=True, text=True,
                            check=False)
    return parsed.returncode == 0 and "here-document" not in parsed.stderr


def commands_of(lines, first, end):
    """Returns the steps of a block of commands alone, in lines[first:end]."""
    steps = []
    begin = first
    for index in range(first, end):
        if begin == index and (not lines[index].strip() or lines[index].lstrip().startswith("#")):
            begin = index + 1
            continue
        command = "\n".join(lines[begin:index + 1])
        if complete(command):
            steps.append(Step(command, begin + 1, range(0)))
            begin = index + 1
    if begin < end:
        raise Fault("the last command is not complete")
    return steps


def session_of(lines, first, end):
    """Returns the steps of a session, in which "$ " marks commands."""
    steps = []
    index = first
    while index < end:
        if not lines[index].startswith("$ "):
            raise Fault("a session begins with a command after '$ '")
        begin = index
        command = lines[index][2:]
        while not complete(command):
            index += 1
            if index == end:
                raise Fault("the last command is not complete")
            command += "\n" + lines[index].removeprefix("> ")
        index += 1
        output = index
        while index < end and not lines[index].startswith("$ "):
            index += 1
        steps.append(Step(command, begin + 1, range(output, index)))
    return steps


def steps_of(language, lines, first, end):
    if language == "sh":
        return commands_of(lines, first, end)
    if language == "console":
        return session_of(lines, first, end)
    if language == "python":
        program = "\n".join(lines[first:end])
        return [Step(f"python3 - <<'PROGRAM'\n{program}\nPROGRAM", first + 1, range(0))]
    return []


def directives_before(lines, index):
    """Returns the text of the comment that stands before the line, or nothing."""
    while index > 0 and not lines[index - 1].strip():
        index -= 1
    found = re.fullmatch(r"\s*<!-- check: (.*) -->", lines[index - 1]) if index else None
    return found.group(1) if found else ""


def blocks_of(lines, faults):
    """Returns the fenced blocks of a page; appends (line, fault) for what is wrong with them."""
    blocks = []
    begin = None
    for index, line in enumerate(lines):
        fence = re.fullmatch(r"(\s*)```(\w*)\s*", line)
        if not fence:
            continue
        if begin is None:
            begin = index
            block = Block(fence.group(2), index + 1, [])
            continue
        try:
            apply_directives(block, directives_before(lines, begin))
            if not block.skip:
                block.steps = steps_of(block.language, lines, begin + 1, index)
            blocks.append(block)
        except Fault as fault:
            faults.append((begin + 1, str(fault)))
        begin = None
    return blocks


def looks_like_command(line):
    if re.search(r"\S {3,}\S", line):  # A row of a table.
        return False
    return re.match(r"\s*(\$ |(gpemu|scripts/[\w/]+\.(py|sh)|make|pip|ctest|cmake)( |$))", line)


def faults_of(path, lines):
    """Yields (line, fault) for commands of a page that are neither executed nor skipped."""
    faults = []
    blocks = {block.line: block for block in blocks_of(lines, faults)}
    yield from faults
    if not FOLLOWED.fullmatch(path):
        return
    block = None
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("```"):
            block = None if block else blocks.get(number, Block("?", number, []))
            if block and not block.language:
                yield number, "say what the block is: sh, console, python, or text and the like"
        elif looks_like_command(line):
            if block and block.language not in (*EXECUTED, "?") and not block.skip:
                yield number, f"a command in a block of {block.language}: use sh or console"
            if not block and line.startswith("    ") and not lines[number - 2].strip():
                yield number, "a command in an indented block: use a fence with sh or console"


def without_numbers(line):
    """Returns the part of a line that does not depend on times and sizes."""
    line = re.sub(r"[-+±]?\d[\d.,:]*", "0", line)
    line = re.sub(r"0\s*(ns|us|µs|ms|s|B|[KMGT]i?B|%)(?=\W|$)", "0", line)
    return re.sub(r"([-=─ ])\1+", r"\1", line).strip()


def matches(expected, actual, mode):
    """Returns whether output is what a page shows; both are lists of lines."""
    if mode == "words":
        expected = ["..." if e.strip() == "..." else without_numbers(e) for e in expected]
        actual = [without_numbers(a) for a in actual]
    pattern = "".join(r"(?:.*\n)*?" if e.strip() == "..." else re.escape(e) + "\n"
                      for e in expected)
    return re.fullmatch(pattern, "".join(a + "\n" for a in actual)) is not None


def trimmed(lines):
    """Returns lines without white space at their ends, those that pass, and empty ones around."""
    kept = (line.rstrip() for line in lines if not PASSING.fullmatch(line))
    return "\n".join(kept).strip("\n").split("\n")


def shortened(expected, actual):
    """Returns new output, left out in the middle where the old one is."""
    if "..." not in expected:
        return actual
    head = expected.index("...")
    tail = expected[::-1].index("...")
    if head + tail >= len(actual):
        return actual
    return actual[:head] + ["..."] + actual[len(actual) - tail:]


class Shell:
    """A shell that executes one command after the other, and the processes that they start."""

    def __init__(self, folder, tree, environment, user):
        self.command_file = folder / "command"
        self.output_file = folder / "output"
        self.reports, child = os.pipe()
        self.child = child
        identity = {} if user is None else {"user": user, "group": user, "extra_groups": []}

        def limit():
            if user is not None:
                resource.setrlimit(resource.RLIMIT_MEMLOCK, (LOCKABLE_BYTES, LOCKABLE_BYTES))

        self.process = subprocess.Popen(  # One thread only, so preexec_fn is safe.
            ["bash", "--noprofile", "--norc"], stdin=subprocess.PIPE, text=True, cwd=tree,
            env=environment, pass_fds=(child,), start_new_session=True, preexec_fn=limit,
            **identity)
        os.close(child)

    def execute(self, command, limit_s):
        """Returns exit code and lines of output; the code is None after `limit_s` seconds."""
        self.command_file.write_text(command + "\n")
        command_file, output_file = (shlex.quote(str(path))
                                     for path in (self.command_file, self.output_file))
        self.process.stdin.write(f". {command_file} </dev/null >{output_file} 2>&1 "
                                 f"{self.child}>&-; echo $? >&{self.child}\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.reports], [], [], limit_s)
        report = os.read(self.reports, 16).decode() if ready else ""
        output = self.output_file.read_text(errors="replace") if self.output_file.exists() else ""
        if not ready:
            return None, trimmed(output.splitlines())
        code = int(report) if report else self.process.wait()
        return code, trimmed(output.splitlines())

    def close(self):
        """Ends the shell and all processes of its commands."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, number)
            except ProcessLookupError:
                break
            try:
                self.process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                continue
        self.process.stdin.close()
        self.process.wait()
        os.close(self.reports)


@dataclasses.dataclass
class Tally:
    """The results of the commands of a page."""

    executed: int = 0
    compared: int = 0
    skipped: int = 0
    failures: list = dataclasses.field(default_factory=list)


class Page:
    """A page that is being executed."""

    def __init__(self, path, options):
        self.path = path
        self.options = options
        self.lines = (ROOT / path).read_text().splitlines()
        faults = []
        self.blocks = blocks_of(self.lines, faults)
        self.tally = Tally(failures=[f"{path}:{line}: {fault}" for line, fault in faults])
        self.updates = []

    def is_chosen(self, block):
        if block.skip or block.language not in EXECUTED:
            return False
        if self.options.exact:
            return block.mode == "exact" and not block.needs
        return not block.needs or block.needs in self.options.wanted

    def execute(self, shell):
        for block in self.blocks:
            if not self.is_chosen(block):
                self.tally.skipped += block.language in EXECUTED
                continue
            hidden = [Step(command, block.line, range(0)) for command in block.before]
            for step in (*hidden, *block.steps):
                expected_code = block.exit_code if step is block.steps[-1] else 0
                code, output = self.execute_step(shell, step, expected_code)
                if code is None or shell.process.poll() is not None:
                    return
                if block.language == "console" and step not in hidden and code == expected_code:
                    self.compare(block, step, output)

    def execute_step(self, shell, step, expected_code):
        """Returns exit code and output of a command; a wrong code is a failure."""
        if self.options.verbose:
            print(f"{self.path}:{step.line}: {step.command}", flush=True)
        code, output = shell.execute(step.command, self.options.limit_s)
        self.tally.executed += 1
        if code != expected_code:
            ended = f"still runs after {self.options.limit_s} s" if code is None else (
                f"ended with {code} instead of {expected_code}")
            self.fail(step, ended, output[-30:])
        return code, output

    def compare(self, block, step, output):
        expected = trimmed([self.lines[index] for index in step.output])
        named = self.options.update and self.options.pages
        if block.mode == "run" and not named:
            return
        self.tally.compared += 1
        if expected == output or (matches(expected, output, block.mode) and not named):
            return
        if self.options.update:
            self.updates.append((step.output, shortened(expected, output)))
            return
        difference = difflib.unified_diff(expected, output, "page", "printed", lineterm="")
        self.fail(step, "prints something else", list(difference)[2:])

    def fail(self, step, what, details):
        text = f"{self.path}:{step.line}: {step.command}\n  {what}"
        self.tally.failures.append("\n    ".join([text, *details]))

    def write_updates(self):
        for place, output in reversed(self.updates):
            self.lines[place.start:place.stop] = output
        if self.updates:
            (ROOT / self.path).write_text("\n".join(self.lines) + "\n")
            print(f"wrote {self.path}")


def copy_repository(target):
    """Copies what git tracks or would track."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "-coz", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.split("\0"):
        if name and (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def give_to(folder, user):
    if user is None:
        return
    os.chown(folder, user, user)
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            os.chown(os.path.join(parent, name), user, user, follow_symlinks=False)


def environment_of(folder, options, builds):
    """Returns the environment of a page: what a fresh login has, and what finds gpemu. A page that
    builds gpemu installs its own Python package, and its reader activates the environment."""
    tools = options.gpemu.parent
    kept = {name: value for name, value in os.environ.items() if PASSED_ON.fullmatch(name)}
    path = f"{tools}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    if builds:
        path = f"{folder / 'gpemu/.venv/bin'}:{path}"
    else:
        kept["PYTHONPATH"] = str(tools.parent / "python")
    return kept | {
        "PATH": path,
        "HOME": str(folder / "home"), "USER": "reader", "LOGNAME": "reader",
        "TMPDIR": str(folder / "tmp"), "GPEMU_NODE_DIR": str(folder / "nodes"),
        "XDG_CACHE_HOME": str(options.cache),
        "LC_ALL": "C.UTF-8", "TERM": "dumb",
    }


def execute_page(path, options, user, repository):
    """Executes a page as a user (None: as the caller) in a copy of a repository, and returns its
    Page."""
    page = Page(path, options)
    if not any(page.is_chosen(block) for block in page.blocks):
        page.tally.skipped = sum(block.language in EXECUTED for block in page.blocks)
        return page
    folder = pathlib.Path(tempfile.mkdtemp(prefix="gpemu-docs-"))
    try:
        for name in ("home", "tmp", "nodes"):
            (folder / name).mkdir()
        tree = folder / "gpemu"
        subprocess.run(["cp", "-a", repository, tree], check=True)
        builds = any(block.needs == "build" and page.is_chosen(block) for block in page.blocks)
        if not builds:
            (tree / "build").mkdir()
            for preset in ("dev", "release"):
                (tree / "build" / preset).symlink_to(options.gpemu.parent.parent)
        give_to(folder, user)
        shell = Shell(folder, tree, environment_of(folder, options, builds), user)
        try:
            page.execute(shell)
        finally:
            shell.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return page


def parse_options(arguments):
    parser = argparse.ArgumentParser(
        description="Executes the commands of the documentation as they are written.",
        epilog="What is executed and compared: see the beginning of this file.")
    parser.add_argument("pages", nargs="*", metavar="PAGE",
                        help="default: README.md, docs/ and examples/cuda/README.md")
    parser.add_argument("--gpemu", type=pathlib.Path, default=ROOT / "build/dev/tools/gpemu",
                        help="the command to execute; default: build/dev/tools/gpemu")
    parser.add_argument("--exact", action="store_true",
                        help="only blocks whose output is the same everywhere; takes seconds")
    parser.add_argument("--update", action="store_true",
                        help="write what was printed into the pages where it does not match; "
                             "with PAGE also where only numbers differ")
    parser.add_argument("--with", dest="wanted", default="", metavar="WHAT,...",
                        help=f"execute blocks that need these, too: {', '.join(NEEDS)}")
    parser.add_argument("--as", dest="users", choices=("root", "user", "both"), default="both",
                        help="who executes the pages when root calls; default: both in turn")
    parser.add_argument("--cache", type=pathlib.Path,
                        help="folder in which scripts/build/install_torch.sh finds or puts "
                             "default: one that is deleted at the end")
    parser.add_argument("--limit-s", type=int, default=600, metavar="SECONDS",
                        help="time that a command may take; default: 600")
    parser.add_argument("--verbose", action="store_true", help="print each command")
    options = parser.parse_args(arguments)
    options.gpemu = options.gpemu.resolve()
    options.wanted = set(filter(None, options.wanted.split(",")))
    if options.wanted - set(NEEDS):
        parser.error(f"--with takes {', '.join(NEEDS)}")
    if not os.access(options.gpemu, os.X_OK):
        parser.error(f"{options.gpemu} is not a program; build it, or name another with --gpemu")
    return options


def can_execute(program, user):
    try:
        subprocess.run([program, "version"], user=user, group=user, extra_groups=[], check=True,
                       stdout=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def users_of(options):
    """Returns (name, id) of those who execute the pages; no id: whoever calls."""
    if os.geteuid() != 0:
        return [("the caller", None)]
    if options.exact or options.users == "root":
        return [("root", None)]
    if not can_execute(options.gpemu, ORDINARY_USER):
        sys.exit(f"check_docs: an ordinary user cannot execute {options.gpemu}: put the repository "
                 "where everybody may read it, or leave that user out by --as root")
    ordinary = ("an ordinary user", ORDINARY_USER)
    return [ordinary] if options.users == "user" else [("root", None), ordinary]


def execute_pages(pages, options, repository, name, user):
    """Executes pages as a user, prints their results, and returns the number of failures."""
    failures = 0
    for path in pages:
        page = execute_page(path, options, user, repository)
        tally = page.tally
        if tally.executed or tally.failures or tally.skipped:
            print(f"{path}, {name}: {tally.executed} commands, {tally.compared} outputs "
                  f"compared, {tally.skipped} blocks left out", flush=True)
        for failure in tally.failures:
            print(failure, flush=True)
        failures += len(tally.failures)
        page.write_updates()
    return failures


def main(arguments):
    options = parse_options(arguments)
    # Like Ctrl-C: ends the pages' processes and removes their folders.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    pages = [pathlib.Path(page).resolve().relative_to(ROOT).as_posix() for page in options.pages]
    if not pages:
        found = (ROOT / "docs").rglob("*.md")
        found = sorted(page.relative_to(ROOT).as_posix() for page in found)
        pages = ["README.md", *found, "examples/cuda/README.md"]
    with tempfile.TemporaryDirectory(prefix="gpemu-docs-cache-") as cache:
        os.chmod(cache, 0o1777)
        options.cache = options.cache or cache
        repository = pathlib.Path(cache) / "repository"
        repository.mkdir()
        copy_repository(repository)
        failures = sum(execute_pages(pages, options, repository, *user)
                       for user in users_of(options))
    print(f"check_docs: {failures} failures")
    if failures and options.exact and not options.update:
        print("check_docs: if what is printed is right, write it into the pages by: "
              "make docs (or scripts/check/check_docs.py --exact --update)")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
