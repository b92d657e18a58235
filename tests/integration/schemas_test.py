#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds what gpemu writes as JSON to its schemas in docs/reference/schemas, and the schemas to what
it writes: a field that a schema does not know fails, wherever it is, and so does a missing one.

Needs jsonschema, Debian's python3-jsonschema.

Usage: schemas_test.py GPEMU_COMMAND
"""

import copy
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

DEBIANS_PYTHON = "/usr/bin/python3"
try:
    import jsonschema
except ModuleNotFoundError:
    if os.path.realpath(sys.executable) == os.path.realpath(DEBIANS_PYTHON):
        sys.exit("schemas_test: no jsonschema; scripts/build/setup.sh installs Debian's")
    os.execv(DEBIANS_PYTHON, [DEBIANS_PYTHON, *sys.argv])

COMMAND = sys.argv.pop(1) if len(sys.argv) > 1 else "gpemu"
ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs/reference/schemas"
SCHEMAS = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}

# Operations, ranges, memory, a wait, and a call that is not supported, in two steps.
PROGRAM = """
import ctypes, os
cuda, nvtx = ctypes.CDLL("libcudart.so.12"), ctypes.CDLL("libnvToolsExt.so.1")
batch = int(os.environ.get("GPEMU_BATCH", "1"))
device, host = ctypes.c_void_p(), ctypes.create_string_buffer(1 << 20)
assert cuda.cudaMalloc(ctypes.byref(device), ctypes.c_size_t(batch << 30)) == 0
for step in range(6):
    nvtx.nvtxRangePushA(b"step %d" % step)
    assert cuda.cudaMemcpy(device, host, ctypes.c_size_t(len(host)), 1) == 0
    assert cuda.cudaMemsetAsync(device, 0, ctypes.c_size_t(batch << 20), None) == 0
    assert cuda.cudaDeviceSynchronize() == 0
    nvtx.nvtxRangePop()
cuda.cudaImportExternalMemory(None, None)
assert cuda.cudaFree(device) == 0
"""


# Stands for torchrun, which needs PyTorch: runs the script as rank 0.
TORCHRUN = """
import os, runpy, sys
ranks = sys.argv[sys.argv.index("--nproc-per-node") + 1]
os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE=ranks)
runpy.run_path(sys.argv[-1], run_name="__main__")
"""


def validator(name):
    """Returns the validator of a schema, with what schemas share put into it: how references to
    other files are resolved differs between versions of jsonschema."""
    text = json.dumps(SCHEMAS[name]).replace("common.json#", "#")
    schema = json.loads(text)
    shared = SCHEMAS["common"]["$defs"]
    assert not shared.keys() & schema.get("$defs", {}).keys(), name
    schema["$defs"] = {**shared, **schema.get("$defs", {})}
    return jsonschema.Draft202012Validator(schema)


def objects(value):
    """Returns all objects in a value; of a long list those at its beginning."""
    found = []
    if isinstance(value, dict):
        found.append(value)
        for part in value.values():
            found += objects(part)
    elif isinstance(value, list):
        for part in value[:3]:
            found += objects(part)
    return found


class SchemasTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="gpemu_schemas_")
        cls.folder = pathlib.Path(cls.scratch.name)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    @classmethod
    def call(cls, *arguments):
        environment = {**os.environ, "GPEMU_NODE_DIR": str(cls.folder / "nodes"),
                       "PYTHONPATH": str(cls.folder / "modules")}
        return subprocess.run([COMMAND, *map(str, arguments)], env=environment, check=True,
                              stdout=subprocess.PIPE, text=True).stdout

    @classmethod
    def data(cls):
        folder = cls.folder / "data"
        if not folder.exists():
            cls.call("data", "make", folder, "--images", 24, "--classes", 2, "--quiet")
        return folder

    def hold(self, name, value):
        """Checks a value, and that no object in it may have a field more."""
        check = validator(name)
        errors = [f"{error.json_path}: {error.message}" for error in check.iter_errors(value)]
        self.assertEqual(errors, [], name)
        for index in range(len(objects(value))):
            changed = copy.deepcopy(value)
            objects(changed)[index]["not_in_the_schema"] = 1
            self.assertFalse(check.is_valid(changed), f"{name}: {sorted(objects(value)[index])}")
        for field in (value if isinstance(value, dict) else []):
            less = {key: part for key, part in value.items() if key != field}
            self.assertFalse(check.is_valid(less), f"{name} without {field}")

    def written(self, *arguments):
        path = self.folder / "result.json"
        end = arguments.index("--") if "--" in arguments else len(arguments)
        self.call(*arguments[:end], "--json", path, *arguments[end:])
        return json.loads(path.read_text())

    def train(self, *arguments):
        return self.written("train", *arguments, "--gpu", "V100-PCIE-32GB", "--model", "resnet18",
                            "--batch", 8, "--quiet")

    def test_schemas_are_schemas(self):
        for name, schema in SCHEMAS.items():
            jsonschema.Draft202012Validator.check_schema(schema)
            self.assertTrue(schema["$id"].endswith(f"/{name}.json"))

    def test_train(self):
        self.hold("train", self.train("synthetic", "--clock", "virtual", "--gpus", 2))
        self.hold("train", self.train("files", self.data(), "--no-pin-memory"))
        self.hold("train", self.train("files", self.data(), "--no-pin-memory", "--cache", "minio"))

    def test_analyze(self):
        self.hold("analyze", self.written(
            "analyze", "files", self.data(), "--gpu", "V100-PCIE-32GB", "--model", "resnet18",
            "--batch", 8, "--quiet", "--no-pin-memory"))

    def test_experiments(self):
        path = self.folder / "result.json"
        self.call("experiment", "run", "tf-data-service", "synergy", "fgd", "--quiet", "--json",
                  path)
        self.hold("experiments", json.loads(path.read_text()))

    def test_schedule(self):
        jobs = self.folder / "jobs.csv"
        jobs.write_text("job,arrival_s,gpus,duration_s\na,0,1,10\nb,0,2,4\n")
        path = self.folder / "result.json"
        self.call("schedule", jobs, "--servers", 1, "--quiet", "--json", path)
        self.hold("schedule", json.loads(path.read_text()))

    def test_place(self):
        jobs = self.folder / "pods.csv"
        jobs.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1,1,1,500\nb,1,1,2,1000\n")
        fleet = self.folder / "servers.csv"
        fleet.write_text("server,gpus\ns,2\n")
        path = self.folder / "result.json"
        self.call("place", jobs, "--fleet", fleet, "--quiet", "--json", path)
        self.hold("place", json.loads(path.read_text()))

    def test_run_and_operations(self):
        operations = self.folder / "ops"
        self.hold("run", self.written(
            "run", "--gpu", "V100-PCIE-32GB", "--quiet", "--ops", operations, "--",
            sys.executable, "-c", PROGRAM))
        kinds = {}
        for line in operations.read_text().splitlines():
            entry = json.loads(line)
            kind = next(key for key in ("format", "process", "op", "mark", "memory", "name")
                        if key in entry)
            if kind in kinds:
                self.assertTrue(validator("operations").is_valid(entry), line)
            else:
                kinds[kind] = entry
        self.assertEqual(len(kinds), 6)
        for entry in kinds.values():
            check = validator("operations")
            self.assertEqual([error.message for error in check.iter_errors(entry)], [])
            self.assertFalse(check.is_valid({**entry, "not_in_the_schema": 1}))

    def test_predict(self):
        result = self.written("predict", "--gpu", "T4,H100-SXM5-80GB", "--batch", "8,32", "--",
                              sys.executable, "-c", PROGRAM)
        self.assertEqual({answer["fits"] for answer in result["answers"]}, {True, False})
        self.assertIsNone(result["host"]["load"])  # The answers do not depend on it.
        self.hold("predict", result)

    def test_predict_of_several_gpus(self):
        module = self.folder / "modules/torch/distributed/run.py"
        module.parent.mkdir(parents=True)
        for package in module.parents[:2]:
            (package / "__init__.py").touch()
        module.write_text(TORCHRUN)
        script = self.folder / "train.py"
        script.write_text(PROGRAM)
        arguments = ("predict", "--gpu", "V100-SXM2-32GB", "--gpus", "2", "--", sys.executable,
                     script)
        result = self.written(*arguments)
        self.assertEqual([answer["gpus"] for answer in result["answers"]], [1, 2])
        self.assertIsNone(result["topology"])
        self.hold("scaling", result)
        named = self.written("predict", "--topology", "dgx-1v", "--batch", "1", *arguments[1:])
        self.assertEqual(named["topology"], "dgx-1v")
        self.hold("scaling", named)

    def test_predict_of_programs_that_share_a_gpu(self):
        script = self.folder / "other.py"
        script.write_text(PROGRAM)
        arguments = ("predict", "--gpu", "T4", "--with", script, "--", sys.executable, "-c",
                     PROGRAM)
        result = self.written(*arguments)
        self.assertEqual([program["program"][-1] for program in result["answers"][0]["programs"]],
                         [PROGRAM, str(script)])
        self.assertTrue(result["answers"][0]["fits"])
        self.hold("sharing", result)
        result = self.written("predict", "--batch", "13", "--sharing", "mps", *arguments[1:])
        together = result["answers"][0]["programs"][1]["together"]
        self.assertIsNone(together, "14 GiB and two contexts are too much")
        self.hold("sharing", result)

    def test_cost(self):
        result = json.loads(self.call("cost", "--gpu", "K80", "--model", "vgg16", "--batch",
                                      "8,1024", "--json"))
        self.assertEqual([cost["fits"] for cost in result["costs"]], [True, False])
        self.hold("cost", result)

    def test_data_bench(self):
        self.hold("data-bench", json.loads(self.call("data", "bench", self.data(), "--json")))

    def test_cells_of_sweeps(self):
        sweep = self.folder / "cells.toml"
        sweep.write_text("""
name = "cells"
command = ["train", "synthetic", "--clock", "virtual", "--steps", "2", "--gpu", "V100-PCIE-32GB",
           "--model", "{model}"]
[factor]
model = ["resnet18", "no-such-model"]
[[column]]
name = "speed"
value = "images_per_s"
""")
        done = subprocess.run([COMMAND, "sweep", sweep, "--quiet"], check=False)
        self.assertEqual(done.returncode, 1)
        cells = [json.loads(path.read_text())
                 for path in (self.folder / "cells.sweep/cells").glob("*.json")]
        self.assertEqual(sorted(cell["exit_status"] for cell in cells), [0, 3])
        for cell in cells:
            if cell["exit_status"] == 0:
                self.hold("train", cell["result"])
            # What the command printed has a schema of its own.
            self.hold("sweep-cell", {**cell, "result": None})

    def test_smi(self):
        self.call("node", "create", "n0", "--gpu", "T4:2")
        self.addCleanup(self.call, "node", "rm", "n0")
        self.hold("smi", json.loads(self.call("smi", "n0", "--json", "--period-ms", 10)))

    def test_recordings(self):
        recordings = sorted(ROOT.glob("evidence/packs/*/operations/*.json"))
        self.assertGreater(len(recordings), 0)
        for path in recordings[::8]:
            value = json.loads(path.read_text())
            self.assertEqual(list(validator("recording").iter_errors(value)), [], path)
        self.assertFalse(validator("recording").is_valid({**value, "more": 1}))


if __name__ == "__main__":
    unittest.main()
