#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each rule of lint.py and check_layers.py finds its fault, and leaves good code alone."""

import unittest
from unittest import mock

import check_includes
import check_layers
import lint
from lint import generate_docs

HEAD = "// SPDX-License-Identifier: Apache-2.0\n"


def faults(path, text):
    lines = text.splitlines()
    found = [*lint.check_start(path, lines), *lint.check_text(path, text, lines)]
    return [fault for _, fault in found]


class Includes(unittest.TestCase):
    def check(self, text, *expected):
        found = [fault for _, fault in check_includes.faults_of("include/gpemu/a/x.hpp", text)]
        self.assertEqual(found, list(expected))

    def test_finds_what_a_public_header_does_not_include(self):
        self.check("#include <string>\nstd::string a;  // std::vector\n")
        self.check("std::string a;\nstd::string b;\n", "std::string needs #include <string>")
        self.check("std::filesystem::path a;\n", "std::filesystem needs #include <filesystem>")
        self.check("std::unheard a;\n",
                   "std::unheard is not in the table of check_includes.py; add it")
        self.check("Bytes a;\n", 'Bytes needs #include "gpemu/base/units.hpp"')
        self.check('#include "gpemu/base/error.hpp"\nResult<int> a();\n')

    def test_leaves_other_files_alone(self):
        self.assertEqual(list(check_includes.faults_of("src/a/x.hpp", "std::string a;\n")), [])

    def test_finds_functions_and_constants_whose_header_a_source_lacks(self):
        texts = {"src/a/x.hpp": "[[nodiscard]] int two_words(int of);\n",
                 "src/a/k.hpp": "inline constexpr int kMost = 3;\n",
                 "src/a/all.hpp": '#include "x.hpp"\n#include "k.hpp"\n'}

        def check(path, text, *expected):
            found = check_includes.faults_of_names({**texts, path: text})
            self.assertEqual([fault for _, _, fault in found], list(expected))

        call = "int a = two_words(kMost);\n"
        check("src/a/y.cpp", call, "two_words needs a header: src/a/x.hpp",
              "kMost needs a header: src/a/k.hpp")
        check("src/a/y.cpp", "  return two_words(2);\n", "two_words needs a header: src/a/x.hpp")
        check("src/a/y.cpp", '#include "all.hpp"\n' + call)
        check("src/b/y.cpp", call)  # Another module's are in another namespace.
        check("src/a/y.cpp", "// two_words()\nstatic int two_words(int of);\n"
                             "constexpr int kMost = 2;\n" + call)
        check("src/a/y.cpp", 'int a = b.two_words("kMost");\n')

    def test_finds_types_and_names_of_other_modules_whose_header_a_source_lacks(self):
        texts = {"include/gpemu/a/x.hpp": "[[nodiscard]] inline bool has(int of) {\n}\n"
                                          "struct Size {\n};\nclass Later;\n",
                 "src/a/members.hpp": "class Name {\n  bool has(int of);\n};\nclass Size;\n"}

        def check(path, text, *expected):
            found = check_includes.faults_of_names({**texts, path: text})
            self.assertEqual([fault for _, _, fault in found], list(expected))

        lacks = ("has needs a header: include/gpemu/a/x.hpp",
                 "Size needs a header: include/gpemu/a/x.hpp")
        check("src/a/y.cpp", "  if (is && has(1)) return;\nSize size;\nLater* later;\n", *lacks)
        check("src/b/y.cpp", "  if (a::has(1)) return;\na::Size size;\n", *lacks)
        check("src/b/y.cpp", "bool of(a::X x) { return x.has(1) && std::has(2); }\n")
        check("src/b/y.cpp", '#include "gpemu/a/x.hpp"\na::Size size;\n')
        check("src/a/y.cpp", '#include "members.hpp"\nbool Name::of(Size& size) { has(1); }\n')
        check("src/a/y.cpp", "TEST(Size, HasOne) {}\nstruct Size {};\n")


class Functions(unittest.TestCase):
    def found(self, text, path="src/a/x.cpp"):
        return [*lint.check_functions(path, text.splitlines())]

    def test_are_short(self):
        def body(count, indent):
            return f"{indent}  call();\n" * count + f"{indent}}}\n"

        for indent in ("", "  "):
            for head in ("int f(int a) {", "void f() const override {", "F::F() : a_(1) {"):
                head = f"\n{indent}{head}\n"
                self.assertEqual(self.found(head + body(70, indent)), [])
                self.assertEqual(self.found(head + body(71, indent)),
                                 [(2, "a function of 71 lines; at most 70")])
        long = "TEST(A, B) {\n" + body(90, "")
        self.assertEqual(self.found(long, "src/a/x_test.cpp"), [])
        self.assertEqual(self.found("namespace a {\n" + "int b;\n" * 90 + "}\n"), [])


class HouseRules(unittest.TestCase):
    def check_bad(self, path, line):
        self.assertEqual(len(faults(path, HEAD + line + "\n")), 1, line)

    def check_good(self, path, line):
        self.assertEqual(faults(path, HEAD + line + "\n"), [], line)

    def test_finds_each_fault(self):
        self.check_bad("src/a/x.cpp", "using namespace std;")
        self.check_bad("src/a/x.cpp", "int a = rand();")
        self.check_bad("src/a/x.cpp", "std::random_device device;")
        self.check_bad("src/a/x.cpp", 'std::printf("x");')
        self.check_bad("src/a/x.cpp", 'fmt::print("x");')
        self.check_bad("tools/x.cpp", 'fmt::print(stderr, "x");')
        self.check_bad("src/a/x.cpp", "throw 1;")
        self.check_bad("src/a/x_test.cpp", "std::this_thread::sleep_for(1s);")
        self.check_bad("src/a/x.cpp", "setenv(a, b, 1);")
        self.check_bad("src/a/x.cpp", "char* text = strerror(errno);")
        self.check_bad("src/a/x.cpp", "int a;  // NOLINT")
        self.check_bad("src/a/x.cpp", "int a;  // TODO: more")
        self.check_bad("src/a/x.cpp", "int a; ")
        self.check_bad("src/a/x.cpp", "\tint a;")
        self.check_bad("src/a/x.cpp", "// " + "x" * 98)
        self.check_bad("docs/x.md", "see /home/me/x")
        self.check_bad("docs/x.md", "the stand-in for NVML")
        self.check_bad("src/a/x.cpp", "// What cannot be is not believed.")
        self.check_bad("src/a/x.cpp", "// It is noticed. Who dies gives back.")
        self.check_bad("src/a/x.cpp", 'fail("no memory, for it is no function");')
        self.check_bad("docs/x.md", "takes 400 MiB besides.")
        self.check_good("docs/x.md", "there is no more than one besides the others")
        self.check_bad("CMakeLists.txt", "file(GLOB sources *.cpp)")
        self.check_bad("shims/a/x.cpp", "enum Status : int { kDone = 0 };")
        self.check_bad("shims/a/x.cpp", "constexpr int kInvalidValue = 7;")
        self.check_bad("shims/a/x.cpp", "Plan* plan = alive<Plan>().find(handle);")
        self.check_bad("shims/a/x.cpp", "return 2;  // CUFFT_ALLOC_FAILED")
        self.check_bad("shims/a/x.cpp", "return record(52);  // cudaErrorMissingConfiguration")
        self.check_bad("shims/a/x.cpp", "return flags > 1 ? kInvalidValue : kSuccess;")
        self.check_bad("shims/a/x.cpp", "const int inner = side == 0 ? m : n;")
        self.check_good("shims/a/x.cpp", "return rows >= 0 && side >= 1;")
        self.check_good("shims/a/x.cpp", "return 2;  // bytes of an element")
        self.check_good("shims/a/abi.hpp", "#pragma once\nenum Side : int { kLeft = 0 };")
        self.check_good("shims/a/x.cpp", "enum class Step { kFirst };")
        self.check_good("shims/a/x.cpp", "Plan* plan = find_object<Plan>(handle);")

    def test_finds_compute_capabilities_that_are_compared(self):
        for line in ("if (spec.compute_capability_major >= 8) return;",
                     "const bool old = facts.compute_capability_major < kAmpere;",
                     "if (profile::compute_capability(gpu) == 90) return;",
                     "return kAmpere <= gpu.compute_capability_major;",
                     "switch (device.compute_capability_major) {",
                     "switch (info->major) {",
                     "return device.info.major == 9 ? 950 : 400;"):
            for path in ("src/a/x.cpp", "shims/a/x.cpp", "tools/x.cpp"):
                self.check_bad(path, line)
            self.check_good("src/profile/x.cpp", line)
            self.check_good("src/a/x_test.cpp", line)
        for line in ("info.major = spec.compute_capability_major;",
                     "facts.generation.cluster_launch ? 1 : 0;",
                     "by_capability[profile::compute_capability(gpu)] = gpu;",
                     'text << spec.compute_capability_major << ".";',
                     "*major = known->compute_capability_major;"):
            self.check_good("src/a/x.cpp", line)

    def test_finds_numbers_of_nvidia_outside_abi_hpp(self):
        def found(text, path="shims/a/x.cpp"):
            return [line for line, _ in lint.check_vendor_numbers(path, HEAD + text)]
        self.assertEqual(found("constexpr int kMove = 1;  // CU_GRAPH_USER_OBJECT_MOVE\n"), [2])
        self.assertEqual(found("// CUmem_advise,\n// or so.\n  constexpr int kSet = 1;\n"), [4])
        self.assertEqual(found("// cublasSide_t.\nconstexpr int kAll[] = {\n    0, 1};\n"), [3])
        self.assertEqual(found("constexpr int kMove = 1;\n", "shims/a/abi.hpp"), [])
        self.assertEqual(found("// cublasSide_t.\n\nconstexpr int kOurs = 1;\n"), [])
        self.assertEqual(found("// cuTensorMapEncodeTiled has it.\nconstexpr int kMax = 1;\n"), [])
        self.assertEqual(found("// cudaFoo.\nconstexpr int kMove = kOther;\n"), [])
        head = "GPEMU_SHIM_EXPORT int f(int a,\n    int b) {\n  if (a) {\n"
        self.assertEqual(found(head + "    return 3;\n  }\n  return kSuccess;\n}\n"), [5])
        self.assertEqual(found(head + "    return 0;\n  }\n}\nint g() {\n  return 3;\n}\n"), [])

    def test_finds_sources_by_their_whole_names(self):
        lists = "add_library(x event_queue.cpp a/copy.cpp b.hpp)\nadd_fuzzer(pack)\n"
        for name in ("event_queue.cpp", "copy.cpp", "pack_fuzz.cpp"):
            self.assertTrue(lint.is_listed(name, lists), name)
        for name in ("queue.cpp", "event.cpp", "event_queue_test.cpp", "b.cpp", "add.cpp"):
            self.assertFalse(lint.is_listed(name, lists), name)

    def test_finds_functions_of_cuda_h_that_let_exceptions_out(self):
        head = "gpemu_cuda_status gpemu_cuda_x(int a,\n    int b)"
        fault = "gpemu_cuda_x lets exceptions out; write ') try {' and GPEMU_CUDA_CATCH"
        self.assertEqual([*lint.check_guarded("src/cuda/api/x.cpp", head + " {\n}\n")],
                         [(2, fault)])
        self.assertEqual([*lint.check_guarded("src/cuda/api/x.cpp",
                                              head + " try {\n}\nGPEMU_CUDA_CATCH\n")], [])
        self.assertEqual([*lint.check_guarded("src/capi/x.cpp", head + " {\n}\n")], [])

    def test_finds_functions_of_cuda_h_that_no_test_names(self):
        texts = {"include/gpemu/cuda.h": "GPEMU_API gpemu_cuda_status gpemu_cuda_x(int a);\n"
                                         "GPEMU_API gpemu_cuda_status\ngpemu_cuda_y(void);\n",
                 "src/cuda/x_test.cpp": "gpemu_cuda_x(1);  // like gpemu_cuda_y\n",
                 "src/cuda/x.cpp": "gpemu_cuda_y();\n"}
        self.assertEqual([*lint.faults_of_tests(texts)],
                         [("include/gpemu/cuda.h", 3, "no C++ test names gpemu_cuda_y")])
        texts["src/cuda/x_test.cpp"] += "gpemu_cuda_y();\n"
        self.assertEqual([*lint.faults_of_tests(texts)], [])

    def test_finds_variables_that_no_page_lists(self):
        fault = "docs/reference/environment.md does not list GPEMU_NEW"
        for path, line in (("src/a/x.cpp", 'getenv("GPEMU_NEW")'),
                           ("scripts/x.sh", 'a="${GPEMU_NEW:-b}"'),
                           ("scripts/x.py", 'os.environ.get("GPEMU_NEW")')):
            self.assertEqual([*lint.check_variables(path, [line])], [(1, fault)])
        self.assertEqual([*lint.check_variables("src/a/x.cpp", ['getenv("GPEMU_NODE")'])], [])
        self.assertEqual([*lint.check_variables("src/a/x_test.cpp", ['"GPEMU_NEW"'])], [])

    def test_finds_scripts_that_the_table_does_not_list(self):
        fault = "scripts/README.md does not list this script"
        self.assertEqual([*lint.check_references("scripts/build/new.sh", [])], [(1, fault)])
        self.assertEqual([*lint.check_references("scripts/check/lint.py", [])], [])

    def test_finds_scripts_that_a_workflow_calls_and_nobody_wrote(self):
        lines = ["run: scripts/check/lint.py && scripts/no_such_script.py"]
        found = [*lint.check_references(".github/workflows/ci.yml", lines)]
        self.assertEqual(found, [(1, "refers to scripts/no_such_script.py, which does not exist")])

    def test_finds_links_to_headings_that_a_page_does_not_have(self):
        def found(link):
            return [*lint.check_document("README.md", [f"[a]({link})"], lint.Sources([]))]
        self.assertEqual(found("GLOSSARY.md#time-and-evidence"), [])
        self.assertEqual(len(found("GLOSSARY.md#time")), 1)
        self.assertEqual(len(found("#no-such-heading")), 1)
        self.assertEqual(len(found("NO_SUCH_PAGE.md")), 1)

    def test_finds_counts_that_are_out_of_date(self):
        counts = {"README.md": [(r"(\d+) kinds of GPU, from", lambda: 999)]}
        self.assertEqual(generate_docs.outdated(), [])
        with mock.patch.dict(generate_docs.COUNTS, counts):
            self.assertEqual(generate_docs.outdated(), ["README.md"])
            self.assertIn("999 kinds of GPU, from", generate_docs.counted("README.md"))

    def test_finds_names_that_two_sources_have_for_themselves(self):
        def found(other, name="src/sim/b.cpp"):
            texts = ["namespace gpemu::sim {\nnamespace {\n" + code + "\n}  // namespace\n" +
                     "int shared() {\n}\n}  // namespace gpemu::sim\n"
                     for code in ("constexpr int kOf = 1;\nint f(int a,\n      int b) {\n}\n"
                                  "struct T {\n};\nusing U = int;", other)]
            faults = lint.faults_of_unity({"src/sim/a.cpp": texts[0], name: texts[1]})
            return [(path, line, fault.split()[0]) for path, line, fault in faults]
        self.assertEqual(found("const int kOf = 2;"), [("src/sim/b.cpp", 3, "src/sim/a.cpp:3")])
        self.assertEqual(len(found("void f(int a, int b) {\n}")), 1)
        self.assertEqual(len(found("class T : A {\n};")), 1)
        for good in ("int f(long a) {\n}", "using U = int;", "struct T;", "int g() {\n  f(1);\n}"):
            self.assertEqual(found(good), [], good)
        self.assertEqual(len(found("using U = long;")), 1)
        self.assertEqual(found("struct T {\n};", "src/sim/b_test.cpp"), [])
        self.assertEqual(found("struct T {\n};", "src/cost/b.cpp"), [])
        one = "namespace {\nstruct T {\n};\n}  // namespace\n"
        for folder, faults in (("shims/nvml", 1), ("shims/common", 0)):
            shim = {f"{folder}/a.cpp": one, f"{folder}/b.cpp": one}
            self.assertEqual(len(list(lint.faults_of_unity(shim))), faults, folder)

    def test_leaves_good_code_alone(self):
        self.check_good("src/a/x.cpp", "using namespace std::chrono_literals;")
        self.check_good("src/a/x.cpp", "// Never throw here; it puts (things) where they belong.")
        self.check_good("src/a/x.cpp", "throw;")
        self.check_good("src/a/x.cpp", 'std::fprintf(stderr, "x");')
        self.check_good("src/a/x.cpp", "int strand(int);")
        self.check_good("tools/x_test.cpp", 'fmt::print("x");')
        self.check_good("src/a/test_gpu.hpp", "#pragma once\n::setenv(a, b, 1);")
        self.check_good("src/a/x.cpp", "int a;  // NOLINT(bugprone-foo): because.")
        self.check_good("src/a/x.cpp", "int a;  // TODO(#12): more")
        self.check_good("docs/x.md", "see /dev/shm/gpemu and $HOME/src/x")

    def test_wants_the_first_two_lines(self):
        self.assertEqual(len(faults("src/a/x.cpp", "int a;\n")), 1)
        self.assertEqual(len(faults("src/a/x.hpp", HEAD + "int a;\n")), 1)
        self.assertEqual(faults("src/a/x.hpp", HEAD + "#pragma once\n"), [])
        self.assertEqual(faults("scripts/x.py", "#!/usr/bin/env python3\n#" + HEAD[2:]), [])


class Documents(unittest.TestCase):
    def faults(self, line):
        sources = lint.Sources(["scripts/check/lint.py"])
        return list(lint.check_document("docs/x.md", [line], sources))

    def test_files_and_symbols_exist(self):
        self.assertEqual(self.faults("`scripts/check/lint.py` has `lint::check_text`"), [])
        self.assertEqual(len(self.faults("`scripts/none.py`")), 1)
        self.assertEqual(len(self.faults("`NoSuchType`")), 1)
        self.assertEqual(len(self.faults("`lint::no_such_function()`")), 1)
        self.assertEqual(len(self.faults("[text](no-such-page.md)")), 1)


class Layers(unittest.TestCase):
    def faults(self, path, line):
        return list(check_layers.check(path, [line]))

    def test_follows_the_table(self):
        self.assertEqual(self.faults("src/cost/x.cpp", '#include "gpemu/profile/x.hpp"'), [])
        self.assertEqual(self.faults("src/capi/x.cpp", '#include "gpemu/device/x.hpp"'), [])
        self.assertEqual(len(self.faults("src/capi/x.cpp", '#include "gpemu/report/x.hpp"')), 1)
        self.assertEqual(len(self.faults("src/data/x.cpp", '#include "gpemu/device/x.hpp"')), 1)
        bad = self.faults("include/gpemu/sim/x.hpp", "#include <gpemu/cost/x.hpp>")
        self.assertEqual(len(bad), 1)
        self.assertEqual(len(self.faults("src/new/x.cpp", '#include "gpemu/base/x.hpp"')), 1)

    def test_keeps_private_headers_private(self):
        self.assertEqual(len(self.faults("include/gpemu/sim/x.hpp", '#include "heap.hpp"')), 1)
        self.assertEqual(len(self.faults("src/sim/x.cpp", '#include "../cost/x.hpp"')), 1)

    def test_what_stands_on_the_library_sees_only_the_c_abi(self):
        for path in ("shims/cuda/x.cpp", "bindings/ruby/x.c"):
            self.assertEqual(self.faults(path, '#include "gpemu/gpemu.h"'), [])
            self.assertEqual(len(self.faults(path, '#include "gpemu/sim/clock.hpp"')), 1)
        mutex = '#include "gpemu/base/mutex.hpp"'
        self.assertEqual(self.faults("shims/cuda/x.cpp", mutex), [])
        self.assertEqual(len(self.faults("bindings/ruby/x.c", mutex)), 1)

    def test_shims_share_one_folder(self):
        def faults(target):
            files = {"shims/cuda/a.hpp", "shims/common/b.hpp", "shims/nccl/c.hpp"}
            return [*check_layers.check("shims/cuda/x.cpp", [f'#include "{target}"'], files)]
        self.assertEqual(faults("a.hpp") + faults("b.hpp"), [])
        self.assertEqual(len(faults("c.hpp")), 1)

    def test_commands_include_what_all_share_and_modules(self):
        for line in ('"run/x.hpp"', '"cli/x.hpp"', '"gpemu/record/x.hpp"', "<fmt/core.h>"):
            self.assertEqual(self.faults("tools/run/x.cpp", f"#include {line}"), [], line)
        self.assertEqual(len(self.faults("tools/run/x.cpp", '#include "train/x.hpp"')), 1)
        self.assertEqual(len(self.faults("tools/run/x.cpp", '#include "x.hpp"')), 1)
        self.assertEqual(len(self.faults("tools/cli/x.cpp", '#include "run/x.hpp"')), 1)
        self.assertEqual(self.faults("tools/cli/x.cpp", "#include <CLI/CLI.hpp>"), [])
        self.assertEqual(len(self.faults("tools/run/x.cpp", "#include <CLI/CLI.hpp>")), 1)
        self.assertEqual(self.faults("tools/analyze/x.cpp", '#include "train/x.hpp"'), [])
        self.assertEqual(self.faults("tools/main.cpp", '#include "cli/x.hpp"'), [])

    def test_modules_of_the_python_package_follow_their_table(self):
        def faults(module, text):
            return [*check_layers.check_python(f"bindings/python/gpemu/{module}.py", text)]
        self.assertEqual(faults("sharing", "import os\nfrom . import _core\n"), [])
        self.assertEqual(faults("_core", "import ctypes\nfrom ._errors import error_for\n"), [])
        self.assertEqual(len(faults("_core", "from .sharing import share\n")), 1)
        self.assertEqual(len(faults("emulators", "from . import _core, sharing\n")), 1)
        self.assertEqual(len(faults("sharing", "from ctypes import c_int\n")), 1)
        self.assertEqual(len(faults("new", "")), 1)
        self.assertEqual(list(check_layers.check_python("scripts/x.py", "import ctypes\n")), [])

    def test_the_document_has_the_same_table(self):
        text = (lint.ROOT / "ARCHITECTURE.md").read_text()
        self.assertEqual(list(check_layers.faults_of_table(text)), [])
        for bad in (text.replace("| sim |", "| simulation |"),
                    text.replace("| base, sim, profile |", "| base, cost |")):
            self.assertNotEqual(text, bad)
            self.assertNotEqual(list(check_layers.faults_of_table(bad)), [])


class Circles(unittest.TestCase):
    def found(self, sources):
        return {module: check_layers.circles(graph)
                for module, graph in check_layers.include_graphs(sources).items()}

    def test_finds_the_shortest_circle_of_units(self):
        sources = {"include/gpemu/sim/a.hpp": "",
                   "src/sim/a.cpp": '#include "b.hpp"',
                   "src/sim/b.hpp": '#include "c.hpp"',
                   "src/sim/c.cpp": '#include "gpemu/sim/a.hpp"\n#include "b.hpp"'}
        self.assertEqual(self.found(sources), {"sim": [["a", "b", "c", "a"], ["b", "c", "b"]]})

    def test_finds_circles_of_commands_and_of_shims(self):
        sources = {"tools/run/a.hpp": '#include "cli/b.hpp"', "tools/cli/b.cpp":
                   '#include "run/a.hpp"', "shims/cuda/a.hpp": '#include "b.hpp"',
                   "shims/cuda/b.hpp": '#include "a.hpp"'}
        self.assertEqual(self.found(sources), {"tools": [["cli/b", "run/a", "cli/b"]],
                                               "shims/cuda": [["a", "b", "a"]]})

    def test_a_unit_and_other_modules_are_no_circle(self):
        sources = {"include/gpemu/sim/a.hpp": "",
                   "src/sim/a.cpp": '#include "gpemu/sim/a.hpp"\n#include "gpemu/base/b.hpp"',
                   "src/sim/a_test.cpp": '#include "gpemu/sim/a.hpp"',
                   "include/gpemu/base/b.hpp": ""}
        self.assertEqual(self.found(sources), {"sim": [], "base": []})

    def test_tells_modules_that_are_free_of_them_and_still_listed(self):
        with mock.patch.object(check_layers, "CIRCLES_LEFT", {"sim"}):
            faults = [*check_layers.faults_of_circles({"src/sim/a.cpp": ""})]
        self.assertEqual(faults, ["'sim' is free of circles: take it off CIRCLES_LEFT"])

    def test_the_list_of_what_is_left_is_no_longer_than_needed(self):
        graphs = check_layers.include_graphs(lint.Sources(lint.repository_files()).text)
        left = {module for module, graph in graphs.items() if check_layers.circles(graph)}
        self.assertEqual(left, check_layers.CIRCLES_LEFT)

    def test_finds_chains_that_are_too_long(self):
        def chain(units):
            sources = {f"src/sim/{unit}.hpp": f'#include "{unit - 1}.hpp"'
                       for unit in range(2, units + 1)}
            return {**sources, "src/sim/1.cpp": "", "src/sim/a_test.cpp": f'#include "{units}.hpp"'}
        most = check_layers.MOST_LAYERS
        self.assertEqual([*check_layers.faults_of_layers(chain(most))], [])
        faults = [*check_layers.faults_of_layers(chain(most + 1))]
        self.assertEqual(len(faults), 1)
        self.assertIn(f"'sim' has units in {most + 1} layers, more than {most}: {most + 1} -> ",
                      faults[0])
        with mock.patch.object(check_layers, "LAYERS_LEFT", {"sim": most + 2}):
            faults = [*check_layers.faults_of_layers(chain(most + 1))]
        self.assertEqual(faults, [f"'sim' has units in {most + 1} layers: change LAYERS_LEFT"])


if __name__ == "__main__":
    unittest.main()
