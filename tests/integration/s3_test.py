#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads data sets from an object store: a small server that checks signatures, fails and stops.
Ends with 77, which CTest calls skipped, without libcurl.

Usage: s3_test.py GPEMU_COMMAND
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import s3_server  # noqa: E402

SKIPPED = 77
COMMAND = sys.argv.pop(1) if len(sys.argv) > 1 else "gpemu"
IMAGES = 20
SECONDS = 120  # that anything may take


class S3Test(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="gpemu_s3_")
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.photos = cls.folder / "bucket" / "some photos"
        cls.photos.parent.mkdir()
        subprocess.run([COMMAND, "data", "make", cls.photos, "--images", str(IMAGES), "--classes",
                        "3", "--quiet"], check=True)
        # Names that a URL does not take as they are.
        (cls.photos / "class_001").rename(cls.photos / "class ä+&1")

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def setUp(self):
        self.server = s3_server.Server(self.folder / "bucket")

    def tearDown(self):
        self.server.ended.set()
        self.server.shutdown()
        self.server.server_close()

    def start(self, *words, place="s3://photos/some photos", **variables):
        environment = {**os.environ, "GPEMU_NODE_DIR": str(self.folder / "nodes"),
                       "AWS_ENDPOINT_URL": self.server.url, "AWS_REGION": s3_server.REGION,
                       "AWS_ACCESS_KEY_ID": s3_server.KEY,
                       "AWS_SECRET_ACCESS_KEY": s3_server.SECRET, "no_proxy": "*", **variables}
        words = [word if word != "PLACE" else place for word in words]
        return subprocess.Popen([COMMAND, *map(str, words)], env=environment,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def call(self, *words, **others):
        process = self.start(*words, **others)
        output, errors = process.communicate(timeout=SECONDS)
        return subprocess.CompletedProcess(words, process.returncode, output, errors)

    def expect_failure(self, done, code, *texts):
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for text in texts:
            self.assertIn(text, done.stderr)

    def test_lists_the_images_as_those_of_a_folder(self):
        done = self.call("data", "show", "PLACE", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        here = self.call("data", "show", self.photos, "--json")
        self.assertEqual({**json.loads(done.stdout), "folder": ""},
                         {**json.loads(here.stdout), "folder": ""})
        # In several pages.
        self.assertEqual(len(self.server.requests), 3)

    def test_copies_each_byte(self):
        copy = self.folder / "copy"
        done = self.call("data", "convert", "PLACE", copy, "--format", "folder", "--quiet")
        self.assertEqual(done.returncode, 0, done.stderr)
        images, copies = (sorted(file.read_bytes() for file in folder.rglob("*.jp*"))
                          for folder in (self.photos, copy))
        self.assertEqual(len(images), IMAGES)
        self.assertTrue(images == copies)

    def test_trains_on_objects_and_caches_them(self):
        done = self.call("train", "files", "PLACE", "--gpu", "V100-PCIE-32GB", "--model", "alexnet",
                         "--batch", 5, "--epochs", 3, "--cache", "minio", "--no-pin-memory",
                         "--json", "-", "--quiet")
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual(result["images"], 3 * IMAGES)
        self.assertEqual(result["corrupt_images"], 0)
        self.assertEqual([epoch["storage_reads"] for epoch in result["data"]["nodes"]["epochs"]],
                         [IMAGES, 0, 0])
        self.assertEqual(len(self.server.requests), 3 + IMAGES)

    def test_tries_again_when_a_fault_may_pass(self):
        for failure in (500, 503, 429, "stop", "half"):
            with self.subTest(failure=failure):
                self.server.requests.clear()
                self.server.failures = [failure, failure]
                done = self.call("data", "show", "PLACE", "--json")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(json.loads(done.stdout)["images"], IMAGES)
                self.assertEqual(len(self.server.requests), 3 + 2)

    def test_gives_up_after_three_tries_with_one_message(self):
        self.server.failures = [500] * 1000
        self.expect_failure(self.call("data", "show", "PLACE"), 7, "500 (InternalError)", "3 times")
        self.assertEqual(len(self.server.requests), 3)
        self.server.failures = ["stop"] * 1000
        self.expect_failure(self.call("data", "show", "PLACE"), 7, "3 times")

    def test_ends_a_run_when_the_server_stops(self):
        # Two pages are listed, and then nothing more is answered.
        self.server.failures = [None] * 8 + [500] * 1000
        done = self.call("train", "files", "PLACE", "--gpu", "V100-PCIE-32GB", "--model", "alexnet",
                         "--batch", 5, "--epochs", 3, "--no-pin-memory", "--quiet",
                         "--workers", 2)
        self.expect_failure(done, 7, "s3://photos/some photos/class", "500")
        self.assertLess(len(self.server.requests), 40)

    def test_says_why_it_may_not_read(self):
        done = self.call("data", "show", "PLACE", AWS_SECRET_ACCESS_KEY="wrong")
        self.expect_failure(done, 7, "403 (SignatureDoesNotMatch)", "check the keys")
        done = self.call("data", "show", "PLACE", AWS_ACCESS_KEY_ID="")
        self.expect_failure(done, 7, "403", "set AWS_ACCESS_KEY_ID")
        self.assertEqual(len(self.server.requests), 2)  # These are not tried again.

    def test_reads_what_anybody_may_read_without_keys(self):
        self.server.signed = False
        done = self.call("data", "show", "PLACE", "--json", AWS_ACCESS_KEY_ID="")
        self.assertEqual(json.loads(done.stdout)["images"], IMAGES)

    def test_names_what_is_not_there(self):
        self.expect_failure(self.call("data", "show", "PLACE", place="s3://other/x"), 3,
                            "s3://other/x", "NoSuchBucket")
        self.expect_failure(self.call("data", "show", "PLACE", place="s3://photos/none"), 6,
                            "s3://photos/none", "no class folder")
        self.expect_failure(self.call("data", "show", "PLACE", place="s3://"), 2, "s3://BUCKET")
        self.expect_failure(self.call("data", "show", "PLACE", AWS_ENDPOINT_URL="127.0.0.1:1"), 2,
                            "http://")
        self.expect_failure(
            self.call("data", "show", "PLACE", AWS_ENDPOINT_URL="http://127.0.0.1:1"), 7,
            "3 times")
        # Control characters are never printed as they are.
        done = self.call("data", "show", "PLACE", place="s3://photos/\x1b[31m")
        self.assertNotIn("\x1b", done.stderr)

    def test_gives_a_server_its_time_and_no_more(self):
        for failure in ("silence", "drip"):
            seconds = []
            for patience in (0.5, 2):
                with self.subTest(failure=failure, patience=patience):
                    self.server.failures = [failure] * 1000
                    begin = time.monotonic()
                    done = self.call("data", "show", "PLACE", "--patience", patience)
                    seconds.append(time.monotonic() - begin)
                    self.expect_failure(done, 7, "s3://photos/some photos",
                                        f"for {patience} s (--patience)")
            self.assertGreaterEqual(seconds[1] - seconds[0], 1, failure)

    def test_reads_no_headers_and_no_list_without_end(self):
        self.server.failures = ["headers"] * 1000
        self.expect_failure(self.call("data", "show", "PLACE"), 7, "more than was asked for")
        self.server.failures = ["endless"]
        self.expect_failure(self.call("data", "show", "PLACE"), 5, "has no end after",
                            "larger files")

    def test_a_signal_ends_the_wait_for_a_server(self):
        for before in (0, 3):  # While it lists, and while it reads.
            self.server.requests.clear()
            self.server.failures = [None] * before + ["silence"] * 1000
            process = self.start("train", "files", "PLACE", "--gpu", "V100-PCIE-32GB", "--model",
                                 "alexnet", "--batch", 5, "--no-pin-memory", "--quiet",
                                 "--patience", 10 * SECONDS)
            while len(self.server.requests) <= before:
                self.assertIsNone(process.poll())
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=SECONDS)
            self.assertEqual(process.returncode, 130, errors)

    def test_refuses_a_server_that_is_none(self):
        (self.folder / "bucket" / "index.html").write_text("<html>hello</html>")
        done = self.call("data", "show", "PLACE", place="s3://photos",
                         AWS_ENDPOINT_URL=f"{self.server.url}/photos/index.html?")
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)


if __name__ == "__main__":
    probe = subprocess.run([COMMAND, "data", "show", "s3://probe"], check=False, text=True,
                           env={**os.environ, "AWS_ENDPOINT_URL": "http://127.0.0.1:1"},
                           capture_output=True)
    if "install libcurl" in probe.stderr:
        print("skipped: this host has no libcurl")
        sys.exit(SKIPPED)
    unittest.main()
