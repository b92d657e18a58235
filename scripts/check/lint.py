#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""House rules that neither the compiler nor clang-tidy checks: one fault a line, as a compiler
prints it. Exits with 1 if there is any.

Usage: scripts/check/lint.py [FILE...]     (by default every file of the repository)
"""

import pathlib
import re
import subprocess
import sys

import check_docs
import check_includes
import check_layers

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts/generate"))
import generate_docs

CXX = (".cpp", ".hpp", ".h", ".c")
SCRIPTS = (".py", ".sh")
# Content that is not ours to format: inputs of fuzz targets, measured tables, licence, JSON.
NOT_TEXT = re.compile(r"^(LICENSE|tests/fuzz/corpus/|.*\.(csv|json|svg|png|jpe?g|db|dict))")
MAX_COLUMNS = 100
MAX_FUNCTION_LINES = 70

# NVIDIA's numbers: their names in comments, and the files that may have the numbers.
VENDOR_NAME = (r"\b((CU|NV|NCCL)[A-Z]*_[A-Z]\w+|CU[a-z]\w+|(cu|nv|nccl)\w+_t|(cuda|cufft|cudnn|"
               r"cublas|curand|cusolver|cusparse|nccl|nvml|nvrtc|nvtx)[A-Z]\w+)\b")
NOT_VENDOR = r"abi\.hpp$|^shims/(audit|clock)/"
VENDOR_NUMBERS = "NVIDIA's statuses and numbers belong in abi.hpp"

# A compute capability that is compared, or chosen by. Functions that compare two are in profile.
CAPABILITY_COMPARED = (r"(\bcompute_capability(_major|_minor)?|(\.|->)(major|minor))\b"
                       r"(\([^()]*\))?\s*(?<![<>-])([<>](?![<>])=?|[!=]=)"
                       r"|(?<![<>-])([<>]|[<>!=]=)\s+[\w.>()\[\]-]*\bcompute_capability"
                       r"|\bswitch \([^)]*(\bcompute_capability|(\.|->)(major|minor)\b)")

# (what is forbidden, in which files, except in which, why). In C++ comments do not count.
FORBIDDEN_CODE = [
    (r"\busing namespace (?!std::(chrono_|string_|string_view_)?literals\b)",
     r"\.[ch]pp$", None, "hides where a name comes from; only literals may be opened"),
    (r"\b(std::random_device|std::default_random_engine|s?rand\(|drand48)",
     r"\.([ch]pp|[ch])$", None, "unseeded randomness makes runs unrepeatable; use sim::Rng"),
    (r"\b(printf|puts|putchar)\s*\(|\bstd::c(out|err)\b|\bfmt::print\((?!stderr)",
     r"^(include|src)/", r"_(test|bench)\.cpp$", "libraries do not print; log or return a Result"),
    (r"\bfmt::print\(|\bf?printf\(|\bstd::c(out|err)\b", r"^tools/.*\.cpp$",
     r"(_test|_main)\.cpp$|^tools/(collectives|mps)/",
     "print_out and print_error of report/terminal.hpp escape names"),
    (r"\bthrow\b(?!;)", r"^(include|src)/", None, "errors are returned as a Result"),
    (r"\b(sleep_for|sleep_until|usleep|nanosleep)\s*\(", r"^src/.*_test\.cpp$", None,
     "unit tests do not sleep"),
    (r"\b(setenv|putenv|unsetenv)\s*\(", r"^(include|src)/",
     r"(_test\.cpp|/test_\w+\.hpp)$", "changing the environment races with every getenv"),
    (r"\b(strerror|localtime|gmtime|ctime|strtok)\s*\(", r"\.([ch]pp|[ch])$", None,
     "not thread safe; use errno_message or the _r function"),
    (r"\bfriend class \w*Test\b", r"\.hpp$", None, "a test that needs a friend lacks a seam"),
    (r"file\(\s*GLOB", r"(CMakeLists\.txt|\.cmake)$", r"^catalog/",
     "sources are listed, never globbed"),
    (r"\benum\b(?! class)|\bk(Success|Invalid\w+|Not(Initialized|Supported)) = -?\d",
     r"^shims/.*\.[ch]pp$",
     NOT_VENDOR, VENDOR_NUMBERS),
    (r"\b((flags|mode|option) ?([<>]=?|[!=]=) ?[1-9]|(side|uplo|trans|diag) ?[!=]= ?\d)",
     r"^shims/.*\.[ch]pp$", NOT_VENDOR, VENDOR_NUMBERS),
    (CAPABILITY_COMPARED, r"^(include|src|shims|tools)/.*\.[ch]pp$",
     # cudaChooseDevice() compares with what a program asks for.
     r"^(src|include/gpemu)/profile/|_test\.cpp$|^shims/cudart/properties\.cpp$",
     "what depends on it is a fact of catalog/generations.toml, GpuSpec::generation"),
    (r"\balive<.*\.find\(", r"^shims/.*\.[ch]pp$", r"/handle_table\.hpp$",
     "the object of a handle is find_object<Object>(handle)"),
]
FORBIDDEN_TEXT = [
    (r"\breturn \w*\(?-?[1-9]\d*\)?;  //.*" + VENDOR_NAME, r"^shims/.*\.[ch]pp$", NOT_VENDOR,
     VENDOR_NUMBERS),
    (r"\bNOLINT(NEXTLINE|BEGIN)?\b(?!\([\w.,* -]+\): \S)", r"\.([ch]pp|[ch])$", None,
     "write NOLINT(check): reason"),
    (r"\b(TODO|FIXME)\b(?!\(#\d+\))", r".", r"^scripts/check/lint", "name the issue: (#123)"),
    (r"(?<![\w.$}{~:/-])/(home|root|Users|mnt|media|work|farm|scratch)/\w", r".",
     r"^scripts/check/lint", "a path of one machine"),
]
# Plain English: (forbidden phrase, replacement). Few, and none with a good use elsewhere.
PLAIN_ENGLISH = [
    (r"\bstand-ins?\b", "'shim'"),
    (r"(?<=[a-z]\. )Who \w|(?<!/)// Who \w", "a noun: 'When a process dies, the others notice'"),
    (r"\bWhat (of|tells|cannot)\b", "a noun: 'Ignore impossible values'"),
    (r"\b(is|are) no more\b(?! than)", "'does not exist any more'"),
    (r"\b(too|is|are) dear\b", "'expensive' or 'slow'"),
    (r"\bso gets?\b", "'therefore gets'"),
    (r", for (it|they|there|nobody|nothing) ", "'because'"),
    (r"\bbesides($|[.;,)\"])", "'too' or 'as well'"),
    (r"\bwhat (it|they) stands? on\b|\bstands? on (it|each other|libgpemu)\b", "'depends on'"),
    (r"\btells? of\b|\b(is|are) told by (the|a)\b", "'shows', 'says' or 'reports'"),
    (r"\bbehind (the )?(warm-up|first ones?|format|last batch)\b|\bsteps behind\b",
     "'after', of time and order"),
    (r"\bsaid so of\b", "'reported'"),
]
PHRASES = [(phrase, r".", r"^scripts/check/lint", f"write {instead}")
           for phrase, instead in PLAIN_ENGLISH]


def rule_faults(rules, path, lines):
    """Yields (line, fault) for each line of a file that breaks a rule. Most files break none, so
    that each rule looks at the whole text first."""
    text = "\n".join(lines)
    for what, where, but, why in rules:
        if not re.search(where, path) or (but and re.search(but, path)):
            continue
        pattern = re.compile(what, re.M)
        if not pattern.search(text):
            continue
        for number, line in enumerate(lines, 1):
            found = pattern.search(line)
            if found:
                yield number, f"'{found.group(0).strip()}': {why}"


def repository_files():
    """Returns the repository's files, tracked or new, without what git ignores."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT,
                            capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        names = listed.stdout.splitlines()
    else:  # An unpacked archive.
        names = [p.relative_to(ROOT).as_posix() for p in ROOT.rglob("*") if p.is_file()]
        names = [n for n in names if not n.startswith(("build/", ".git/", ".venv/"))]
    return sorted(n for n in names if (ROOT / n).is_file())


def check_start(path, lines):
    """A file starts with its licence, a header then with its guard."""
    if not path.endswith(CXX + SCRIPTS):
        return
    first = 1 if lines and lines[0].startswith("#!") else 0
    if "SPDX-License-Identifier: Apache-2.0" not in "".join(lines[first:first + 1]):
        yield first + 1, "the SPDX line is missing"
    if path.endswith(".hpp") and "#pragma once" not in lines[1:2]:
        yield 2, "#pragma once is missing"


def check_text(path, text, lines):
    """White space, length of lines, and what is forbidden."""
    if text and not text.endswith("\n"):
        yield len(lines), "no newline at the end of the file"
    for number, line in enumerate(lines, 1):
        if line != line.rstrip():
            yield number, "white space at the end of the line"
        # gofmt wants tabs.
        if "\t" in line and not path.endswith(("Makefile", ".go", "go.mod")):
            yield number, "a tab"
        # Viewers wrap; addresses and mangled names do not.
        exempt = path.endswith(".md") or "http" in line or re.search(r"\b_Z\w{60}", line)
        if len(line) > MAX_COLUMNS and not exempt:
            yield number, f"{len(line)} columns; at most {MAX_COLUMNS}"
    code = [line.split("//")[0] for line in lines] if path.endswith(CXX) else lines
    yield from rule_faults(FORBIDDEN_CODE, path, code)
    yield from rule_faults(FORBIDDEN_TEXT, path, lines)
    yield from rule_faults(PHRASES, path, lines)


def check_functions(path, lines):
    """No function is too long, as clang-tidy counts: without the lines of its head and its end.
    Tests are exempt, whose tables may be longer."""
    tests = r"_(test|bench)\.cpp$|^(tests|examples)/"
    if not path.endswith(CXX) or re.search(tests, path):
        return
    start = re.compile(r"^( {2})?(?!(if|for|while|switch|else|return|do)\b)[^ }/:#]")
    first = None  # The line where the declaration begins, and its indentation.
    for number, line in enumerate(lines):
        if found := start.match(line):
            first = None if re.search(r"= ?\{$", line) else found[1] or ""  # No table.
        if first is None or not re.search(r"\)[^()=]*\{$", line):
            continue
        if re.match(r" *(\}|(if|for|while|switch|else)\b)", line):
            continue
        end = first + "}"
        body = next((i for i, other in enumerate(lines[number + 1:]) if other.startswith(end)), 0)
        first = None
        if body > MAX_FUNCTION_LINES:
            yield number + 1, f"a function of {body} lines; at most {MAX_FUNCTION_LINES}"


def check_vendor_numbers(path, text):
    """NVIDIA's numbers stand in abi.hpp: those of constants that a comment on them or before them
    calls by NVIDIA's name, and statuses that exported functions return."""
    if not re.match(r"shims/.*\.[ch]pp$", path) or re.search(NOT_VENDOR, path):
        return
    constant = re.compile(r"((?:^ *//.*\n)*)^ *(?:(?:inline|static) )*(constexpr) \w+ k\w+"
                          r"(?:\[\w*\])? = [^/;]*\b\d[^/;]*;?(.*)", re.M)
    for found in constant.finditer(text):
        if re.search(VENDOR_NAME, found[1] + found[3]):
            yield text.count("\n", 0, found.start(2)) + 1, VENDOR_NUMBERS
    function = re.compile(r"^GPEMU_SHIM_EXPORT int \w+\([^{;]*\{\n(?:(?:  .*)?\n)*?  +return "
                          r"-?[1-9]\d*;", re.M)
    for found in function.finditer(text):
        yield text.count("\n", 0, found.end()) + 1, VENDOR_NUMBERS


def is_listed(name, lists):
    """Returns whether a CMakeLists.txt names a source, or the stem that a function makes it of."""
    stem = name.rpartition(".")[0].removesuffix("_fuzz")
    return re.search(rf"(?<![\w.-])(\w+/)*{re.escape(stem)}(?![\w-]|\.(?!cpp\b|c\b))", lists)


def check_listed(path):
    """A source that no CMakeLists.txt names is never compiled."""
    if not path.endswith((".cpp", ".c")) or not path.startswith(("src/", "tools/", "tests/")):
        return
    source = ROOT / path
    for folder in source.parents:
        lists = folder / "CMakeLists.txt"
        if lists.exists() and is_listed(source.name, lists.read_text()):
            return
        if folder == ROOT:
            break
    yield 1, "no CMakeLists.txt names this file"


def check_guarded(path, text):
    """No exception leaves a function of gpemu/cuda.h."""
    if path.startswith("src/cuda/"):
        for found in re.finditer(r"(?m)^\w+ (gpemu_cuda_\w+)\([^{};]*\) \{", text):
            yield text.count("\n", 0, found.end()) + 1, (
                f"{found[1]} lets exceptions out; write ') try {{' and GPEMU_CUDA_CATCH")


CUDA_HEADER = "include/gpemu/cuda.h"


def faults_of_tests(texts):
    """Yields (path, line, fault) for functions of gpemu/cuda.h that no C++ test names."""
    tests = (text for path, text in texts.items() if path.endswith("_test.cpp"))
    named = {name for text in tests
             for name in re.findall(r"\bgpemu_cuda_\w+", re.sub(r"//.*", "", text))}
    header = texts.get(CUDA_HEADER, "")
    for found in re.finditer(r"(?m)^GPEMU_API [^;(]*\b(gpemu_cuda_\w+)\(", header):
        if found[1] not in named:
            yield (CUDA_HEADER, header.count("\n", 0, found.start(1)) + 1,
                   f"no C++ test names {found[1]}")


class Sources:
    """The words of the source tree, to look up what documents name."""

    def __init__(self, files):
        self.files = set(files)
        self.folders = {parent.as_posix() for f in files for parent in pathlib.PurePath(f).parents}
        code = [f for f in files if f.endswith(CXX + SCRIPTS + (".def", ".cmake", ".txt"))]
        self.text = {f: (ROOT / f).read_text(errors="replace") for f in code}
        self.words = {w for text in self.text.values() for w in re.findall(r"\w+", text)}

    def has_path(self, path):
        return path.rstrip("/") in self.files or path.rstrip("/") in self.folders

    def has_symbol(self, symbol):
        parts = symbol.split("::")
        if len(parts) == 1:
            return symbol in self.words
        owner, member = (re.compile(rf"\b{part}\b") for part in parts[-2:])
        return any(owner.search(t) and member.search(t) for t in self.text.values())


TOP_FOLDERS = "include|src|tools|tests|docs|scripts|cmake|catalog|evidence|examples|shims"
DOCUMENT_PATH = re.compile(
    rf"(({TOP_FOLDERS})/[\w./-]*|[A-Z]+\.md|CMake\w+\.(txt|json)|Makefile)")
# Qualified names, constants, and names of two words or more: TypeName, kConstantName.
DOCUMENT_SYMBOL = re.compile(r"(\w+::)+\w+|k?[A-Z]+[a-z]\w*[A-Z]\w*|k[A-Z]\w+")


def anchors_of(text):
    """Returns the anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"(?m)^#+ (.*)$", text)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def check_document(path, lines, sources):
    """Files, headings and symbols that a document names exist."""
    fenced = False
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        if fenced:
            continue
        for target, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", line):
            page = (ROOT / path).parent / target if target else ROOT / path
            if "://" in target:
                continue
            if not page.exists():
                yield number, f"links to {target}, which does not exist"
            elif anchor and anchor not in anchors_of(page.read_text()):
                yield number, f"links to the heading #{anchor}, which {page.name} does not have"
        for name in re.findall(r"`([^`]+)`", line):
            symbol = name.removesuffix("()")
            if DOCUMENT_PATH.fullmatch(name):
                if not sources.has_path(name):
                    yield number, f"names the file {name}, which does not exist"
            elif DOCUMENT_SYMBOL.fullmatch(symbol) and not symbol.startswith("std::"):
                if not sources.has_symbol(symbol):
                    yield number, f"names {name}, which no source has"


SCRIPTS_PAGE = "scripts/README.md"


def check_references(path, lines):
    """Pages and scripts that any file refers to exist, and each page and script is in its index."""
    for number, line in enumerate(lines, 1):
        if path.startswith(".github/"):
            for script in re.findall(r"(?<![\w/])scripts/[\w./]+", line):
                if not (ROOT / script).exists():
                    yield number, f"refers to {script}, which does not exist"
        for page in re.findall(r"\bdocs/[\w/-]+\.md\b", line):
            if not (ROOT / page).exists():
                yield number, f"refers to {page}, which does not exist"
    if path.startswith("scripts/") and path.endswith(SCRIPTS):
        if f"`{path.removeprefix('scripts/')}`" not in (ROOT / SCRIPTS_PAGE).read_text():
            yield 1, f"{SCRIPTS_PAGE} does not list this script"
    inside = path.removeprefix("docs/")
    if path.startswith("docs/") and path.endswith(".md") and inside != "README.md":
        if inside not in (ROOT / "docs/README.md").read_text():
            yield 1, "docs/README.md does not list this page"


# A variable that is read or set: a whole string in C++ and Python, an expansion in shell.
VARIABLE = re.compile(r'"(GPEMU_[A-Z0-9_]+)"')
SHELL_VARIABLE = re.compile(r"\$\{?(GPEMU_[A-Z0-9_]+)")
VARIABLES_PAGE = "docs/reference/environment.md"


def check_variables(path, lines):
    """The page of variables has every one that the sources read or set."""
    if not path.endswith(CXX + SCRIPTS) or path.startswith("tests/") or "_test." in path:
        return
    listed = set(re.findall(r"`(GPEMU_[A-Z0-9_]+)`", (ROOT / VARIABLES_PAGE).read_text()))
    pattern = SHELL_VARIABLE if path.endswith(".sh") else VARIABLE
    for number, line in enumerate(lines, 1):
        for name in pattern.findall(line):
            if name not in listed:
                yield number, f"{VARIABLES_PAGE} does not list {name}"


# Definitions in the first column: a type, a constant, a function with its parameters. Overloaded
# functions may repeat, and so may names of namespaces, and of types that are the same.
DEFINITIONS = [
    re.compile(r"(?:template <[^\n]*>\s)?(?:struct|class|enum class|enum|union) (\w+)[^;\n]*\{"),
    re.compile(r"(?!using|namespace|TEST)[\w:][^()=\n;]*?[\s*&](\w+)(?:\[\w*\])* ?(?:=|\{[^\n]*;)"),
    re.compile(r"(?!TEST|INSTANTIATE)[\w:][^()=\n;]*?[\s*&](\w+\([^{;]*\))[^;{)]*\{")]


def unnamed_definitions(text):
    """Yields (namespace, name, line, alias of) for each definition in a source's unnamed
    namespaces."""
    outside = []
    start = 0
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        opened = re.match(r"(?:inline )?namespace ?([\w:]*) ?\{$", line)
        if opened:
            outside.append(opened[1])
        elif line.startswith("}  // namespace") and outside:
            outside.pop()
        elif outside and not outside[-1]:
            found = next(filter(None, (d.match(text, start) for d in DEFINITIONS)), None)
            alias = re.match(r"using (\w+) = ([^;]*);", text[start:])
            if found or alias:
                yield ("::".join(outside[:-1]), " ".join((found or alias)[1].split()), number,
                       alias and alias[2])
        start += len(line)


def faults_of_unity(texts):
    """Yields (path, line, fault) for names that two sources of a module or of a shim have for
    themselves: most builds compile them as one."""
    first = {}
    for path in sorted(texts):
        module = re.match(r"(src/\w+|tools|shims/(?!common/)\w+)/.*?(_test|_bench|)\.cpp$", path)
        if not module:
            continue
        for namespace, name, number, alias in unnamed_definitions(texts[path]):
            where, line, other = first.setdefault((*module.groups(), namespace, name),
                                                  (path, number, alias))
            if where != path and (alias is None or alias != other):
                yield path, number, (f"{where}:{line} defines {name} too; most builds compile the "
                                     "files of a module or a shim as one")


def faults_of(path, sources):
    """Yields (line, fault) for one file."""
    if NOT_TEXT.match(path):
        return
    try:
        text = (ROOT / path).read_text()
    except UnicodeDecodeError:
        return
    lines = text.splitlines()
    yield from check_start(path, lines)
    yield from check_text(path, text, lines)
    yield from check_functions(path, lines)
    yield from check_vendor_numbers(path, text)
    yield from check_listed(path)
    yield from check_guarded(path, text)
    yield from check_includes.faults_of(path, text)
    if path != "scripts/check/lint_test.py":
        yield from check_references(path, lines)
    yield from check_variables(path, lines)
    if path.endswith(CXX):
        yield from check_layers.check(path, lines, sources.files)
    yield from check_layers.check_python(path, text)
    if path.endswith(".md") and path != "CHANGELOG.md":
        yield from check_document(path, lines, sources)
        yield from check_docs.faults_of(path, lines)


def main():
    files = repository_files()
    sources = Sources(files)
    chosen = [pathlib.Path(f).resolve().relative_to(ROOT).as_posix() for f in sys.argv[1:]]
    faults = 0
    for path in chosen or files:
        for line, fault in faults_of(path, sources):
            print(f"{path}:{line}: {fault}")
            faults += 1
    for path, line, fault in (*faults_of_unity(sources.text), *faults_of_tests(sources.text),
                              *check_includes.faults_of_names(sources.text)):
        print(f"{path}:{line}: {fault}")
        faults += 1
    for fault in (*check_layers.faults_of_circles(sources.text),
                  *check_layers.faults_of_layers(sources.text),
                  *check_layers.faults_of_table((ROOT / "ARCHITECTURE.md").read_text())):
        print(f"scripts/check/check_layers.py:1: {fault}")
        faults += 1
    for path in generate_docs.outdated():
        print(f"{path}:1: out of date; run scripts/generate/generate_docs.py")
        faults += 1
    print(f"lint: {faults} faults in {len(chosen or files)} files")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
