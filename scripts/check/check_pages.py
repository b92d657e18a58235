#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes every kind of report, opens it in headless Chromium at three widths, light, dark and as
paper, and checks what a reader sees: nothing lies outside its box or on other text, no text is
smaller than 11 pixels, nothing is fetched, the console is empty, tips and zoom work. Writes a
screenshot of each view.

Needs Chromium, its driver and Selenium: `scripts/build/setup.sh pages` installs Debian's.

Usage: check_pages.py [--output FOLDER] [--only NAME] [GPEMU_COMMAND]
"""

import argparse
import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

try:
    from selenium import webdriver
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
except ModuleNotFoundError:
    sys.exit(f"check_pages: {sys.executable} has no Selenium: run scripts/build/setup.sh pages, "
             "and then /usr/bin/python3 scripts/check/check_pages.py")

ROOT = pathlib.Path(__file__).resolve().parents[2]
WIDTHS = (1200, 800, 420)
PAPER_PX = 800  # about the width of A4.
LEAST_TEXT_PX = 11

# Kernels with names as PyTorch has them, on two streams of two GPUs, in nested ranges; and a call
# that is not supported.
PROGRAM = r"""
import ctypes, time
cuda, driver = ctypes.CDLL("libcudart.so.12"), ctypes.CDLL("libcuda.so.1")
nvtx = ctypes.CDLL("libnvToolsExt.so.1")
names = [
    b"_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EE"
    b"EEviT0_T1_",
    b"_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_7MeanOpsIffffEEjfLi4EEEEEvT1_",
    b"a_kernel_with_a_name_that_has_no_end_" + b"and_goes_on_and_on_" * 20,
    b"ampere_sgemm_128x64_nn",
]
host = ctypes.create_string_buffer(4 << 20)
for device in (0, 1):
    assert cuda.cudaSetDevice(device) == 0
    library, text = ctypes.c_void_p(), ctypes.c_char_p(b".version 8.0")
    assert driver.cuLibraryLoadData(ctypes.byref(library), text, None, None, 0, None, None, 0) == 0
    kernels = []
    for name in names:
        kernel = ctypes.c_void_p()
        assert driver.cuLibraryGetKernel(ctypes.byref(kernel), library, name) == 0
        kernels.append(kernel)
    streams = [ctypes.c_void_p() for _ in range(2)]
    for stream in streams:
        assert cuda.cudaStreamCreateWithFlags(ctypes.byref(stream), 1) == 0
    memory = ctypes.c_void_p()
    assert cuda.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(len(host))) == 0
    for step in range(6):
        nvtx.nvtxRangePushA(b"training step %d of the GPU %d, the one that counts" % (step, device))
        assert cuda.cudaMemcpyAsync(memory, host, ctypes.c_size_t(len(host)), 1, streams[1]) == 0
        for i in range(24):
            kernel = kernels[i % len(kernels)]
            grid = 1 << (10 + i % 7)
            assert driver.cuLaunchKernel(kernel, grid, 1, 1, 256, 1, 1, 0, streams[i % 2], None,
                                         None) == 0
        assert cuda.cudaMemsetAsync(memory, 0, ctypes.c_size_t(len(host)), streams[0]) == 0
        assert cuda.cudaDeviceSynchronize() == 0
        if step % 2:
            time.sleep(0.004)
        else:
            begin = time.perf_counter()
            while time.perf_counter() < begin + 0.003:
                pass
        nvtx.nvtxRangePop()
"""

SWEEP = """
name = "sweep"
title = "Images per second on two GPUs"
command = ["train", "synthetic", "--clock", "virtual", "--gpu", "{gpu}", "--model", "{model}",
           "--batch", "{batch}", "--steps", "{steps}"]
[factor]
model = ["resnet18", "vgg16"]
gpu = ["V100-PCIE-32GB", "P100-PCIE-16GB"]
batch = [8, 32, 64, 128, 256]
steps = [2, 4, 8]
[[column]]
name = "speed"
title = "images/s"
value = "images / elapsed_s"
[[plot]]
x = "batch"
y = "speed"
series = "gpu"
facet = "model"
[[plot]]
title = "over all batch sizes"
x = "gpu"
y = "speed"
series = "model"
"""

# Steps that predict finds by their ranges.
STEPS = r"""
import ctypes, os
cuda, nvtx = ctypes.CDLL("libcudart.so.12"), ctypes.CDLL("libnvToolsExt.so.1")
batch = int(os.environ.get("GPEMU_BATCH", "1"))
device, host = ctypes.c_void_p(), ctypes.create_string_buffer(1 << 20)
assert cuda.cudaMalloc(ctypes.byref(device), ctypes.c_size_t(batch << 28)) == 0
for step in range(9):
    nvtx.nvtxRangePushA(b"step %d" % step)
    assert cuda.cudaMemcpy(device, host, ctypes.c_size_t(len(host)), 1) == 0
    for i in range(20):
        assert cuda.cudaMemsetAsync(device, 0, ctypes.c_size_t(batch << 22), None) == 0
    assert cuda.cudaDeviceSynchronize() == 0
    nvtx.nvtxRangePop()
"""

# The faults of a page, as a list of sentences.
LOOK = r"""
const least = arguments[0], wide = arguments[1];
const wrong = [];
const name = (element) => {
  const text = (element.textContent || "").trim().slice(0, 50);
  const tag = element.tagName.toLowerCase();
  return `<${tag} class="${element.getAttribute("class") || ""}"> ${text}`;
};
const shown = (element) => element.getClientRects().length > 0;
const scrolls = (element) => {
  for (let e = element; e; e = e.parentElement) {
    if (/auto|scroll/.test(getComputedStyle(e).overflowX)) return true;
  }
  return false;
};
if (document.documentElement.scrollWidth > innerWidth) {
  wrong.push(`the page is ${document.documentElement.scrollWidth} px wide`);
}
for (const element of document.querySelectorAll("body *")) {
  if (!shown(element) || element.id === "tip" || element.closest("svg")) continue;
  const box = element.getBoundingClientRect();
  if (!scrolls(element)) {
    if (box.right > innerWidth + 0.5 || box.left < -0.5) {
      wrong.push(`beyond the window: ${name(element)}`);
    }
    if (element.clientWidth > 0 && element.scrollWidth > element.clientWidth + 1) {
      wrong.push(`content beyond its box: ${name(element)}`);
    }
  } else if (wide && element.matches(".scroll") && element.scrollWidth > element.clientWidth + 1) {
    wrong.push(`needs ${element.scrollWidth} of ${element.clientWidth} px: ${name(element)}`);
  }
}
const root = document.body || document.documentElement;
const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
for (let node = walker.nextNode(); node; node = walker.nextNode()) {
  const element = node.parentElement;
  if (!node.data.trim() || !shown(element)) continue;
  if (/SCRIPT|STYLE|TITLE|title/.test(element.tagName)) continue;
  const scale = element.getScreenCTM ? element.getScreenCTM().a : 1;
  const size = parseFloat(getComputedStyle(element).fontSize) * scale;
  if (size < least - 0.01) wrong.push(`text of ${size.toFixed(1)} px: ${name(element)}`);
}
for (const svg of document.querySelectorAll("svg")) {
  if (!shown(svg) || svg.matches("svg svg")) continue;
  const outer = svg.getBoundingClientRect();
  const texts = [...svg.querySelectorAll("text")].map((text) =>
    [text, text.getBoundingClientRect()]);
  for (const element of svg.querySelectorAll("text, rect, circle, path")) {
    if (element.closest(".spans") || element.getAttribute("visibility") === "hidden") continue;
    const box = element.getBoundingClientRect();
    if (box.left < outer.left - 1 || box.right > outer.right + 1 || box.top < outer.top - 1 ||
        box.bottom > outer.bottom + 1) {
      wrong.push(`beyond its drawing: ${name(element)}`);
    }
  }
  texts.forEach(([first, a], i) => texts.slice(i + 1).forEach(([second, b]) => {
    if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 &&
        b.top < a.bottom - 3) {
      wrong.push(`text on text: ${name(first)} and ${name(second)}`);
    }
  }));
}
return wrong;
"""


class Maker:
    """Makes the reports with the command."""

    def __init__(self, command, folder):
        self.command, self.folder = command, folder
        self.data = folder / "data"

    def call(self, *arguments, check=True, **options):
        environment = {**os.environ, "GPEMU_NODE_DIR": str(self.folder / "nodes")}
        subprocess.run([self.command, *map(str, arguments)], env=environment, check=check,
                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **options)

    def images(self):
        if not self.data.exists():
            self.call("data", "make", self.data, "--images", 160, "--classes", 2, "--seed", 1,
                      "--quiet")
        return self.data

    def train(self, page, **options):
        self.call("train", "files", self.images(), "--gpu", "V100-PCIE-32GB", "--model", "resnet18",
                  "--batch", 16, "--epochs", 3, "--workers", 2, "--no-pin-memory",
                  "--quiet", "--report", page, **options)

    def train_long(self, page):
        self.call("train", "synthetic", "--gpu", "A100-SXM4-40GB", "--model", "resnet50",
                  "--batch", 256, "--gpus", 4, "--clock", "virtual", "--steps", 5000, "--quiet",
                  "--report", page)

    def train_on_a_busy_host(self, page):
        def alone():
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=alone)
                for _ in range(3)]
        try:
            self.train(page, preexec_fn=alone)
        finally:
            for process in busy:
                process.kill()
                process.wait()
        if 'class="warning"' not in page.read_text():
            raise SystemExit("check_pages: no warning though three others shared the only core")

    def analyze(self, page):
        self.call("analyze", "files", self.images(), "--gpu", "V100-PCIE-32GB", "--model",
                  "resnet18", "--batch", 16, "--workers", 2, "--no-pin-memory", "--quiet",
                  "--report", page)

    def run(self, page):
        self.call("run", "--gpu", "A100-SXM4-40GB:2", "--quiet", "--report", page, "--",
                  sys.executable, "-c", PROGRAM)

    def run_without_work(self, page):
        self.call("run", "--gpu", "T4", "--quiet", "--report", page, "--", "true")

    def predict(self, page):
        self.call("predict", "--gpu", "T4,V100-PCIE-32GB,A100-SXM4-80GB,H100-SXM5-80GB", "--batch",
                  "16,64", "--report", page, "--", sys.executable, "-c", STEPS)

    def predict_plot(self, page):
        self.call("predict", "--gpu", "T4,H100-SXM5-80GB", "--plot", page, "--", sys.executable,
                  "-c", STEPS)

    def schedule(self, page):
        traces = ROOT / "evidence/published/schedulers/muri"
        few = pathlib.Path(page).with_name("few.csv")
        self.call("jobs", "convert", traces / "trace3.csv.gz", few, "--first", 100, "--quiet")
        self.call("schedule", traces / "trace3.csv.gz", few, "--servers", 8, 16, "--policy", "fifo",
                  "sjf", "srtf", "srsf", "las", "gittins", "tiresias", "easy", "srtf-synergy",
                  "--quiet", "--report", page)

    def experiments(self, page):
        self.call("experiment", "run", "allox", "synergy", "fgd", "--quiet", "--report", page)

    def sweep(self, page):
        """Lines with error bars, bars, facets, and cells that fail."""
        sweep = pathlib.Path(page).with_name("sweep.toml")
        sweep.write_text(SWEEP)
        self.call("sweep", sweep, "--quiet", "--folder", self.folder / "sweep", check=False)
        shutil.copy(self.folder / "sweep/page.html", page)

    def profile_plot(self, page):
        self.call("profile", "show", "--gpu", "V100-PCIE-32GB", "--model", "resnet50", "--plot",
                  page)


def open_browser(folder):
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--disable-background-networking", "--no-first-run", "--hide-scrollbars",
                     f"--user-data-dir={folder / 'browser'}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.chrome.service.Service("/usr/bin/chromedriver")
    browser = webdriver.Chrome(service=service, options=options)
    browser.get("about:blank")
    fetched(browser)  # By the browser's first page.
    return browser


def show(browser, page, width, scheme):
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
        "media": "print" if scheme == "print" else "screen",
        "features": [{"name": "prefers-color-scheme",
                      "value": "dark" if scheme == "dark" else "light"}]})
    browser.get(page.as_uri())


def screenshot(browser, path):
    height = browser.execute_script("return document.documentElement.scrollHeight")
    width = browser.execute_script("return innerWidth")
    image = browser.execute_cdp_cmd("Page.captureScreenshot", {
        "captureBeyondViewport": True,
        "clip": {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}})
    path.write_bytes(base64.b64decode(image["data"]))


def fetched(browser):
    """Returns the network requests and the messages of the console."""
    found = [f"console: {entry['message']}" for entry in browser.get_log("browser")]
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            url = message["params"]["request"]["url"]
            if not url.startswith(("file:", "data:")):
                found.append(f"fetched: {url}")
    return found


def try_tips_and_zoom(browser):
    """Points at the plots and drags over a timeline, as a reader does."""
    wrong = []
    for plot in browser.find_elements(By.CSS_SELECTOR, ".wide svg.lines, .wide svg.timeline"):
        browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", plot)
        target = plot
        if "timeline" in plot.get_attribute("class"):
            spans = plot.find_element(By.CSS_SELECTOR, ".spans")
            before = spans.get_dom_attribute("viewBox")
            ActionChains(browser).move_to_element_with_offset(plot, 0, 0).click_and_hold() \
                .move_by_offset(150, 0).release().perform()
            after = spans.get_dom_attribute("viewBox")
            if before == after:
                wrong.append("dragging did not zoom the timeline")
            ActionChains(browser).double_click(plot).perform()
            if spans.get_dom_attribute("viewBox").split()[:1] != ["0"]:
                wrong.append("a double click did not show the whole timeline again")
            rects = spans.find_elements(By.CSS_SELECTOR, "rect")
            target = max(rects, key=lambda rect: rect.rect["width"])
        ActionChains(browser).move_to_element(target).perform()
        tip = browser.find_element(By.ID, "tip")
        if not tip.is_displayed() or not tip.text:
            wrong.append(f"no tip over a {plot.get_attribute('class')}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--output", type=pathlib.Path, help="folder for pages and screenshots")
    parser.add_argument("--only", help="the report of this name, e.g. train")
    parser.add_argument("command", nargs="?", default=str(ROOT / "build/dev/tools/gpemu"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gpemu_pages_") as scratch:
        scratch = pathlib.Path(scratch)
        output = (options.output or scratch / "pages").resolve()
        output.mkdir(parents=True, exist_ok=True)
        maker = Maker(options.command, scratch)
        makers = {"train.html": maker.train, "train-long.html": maker.train_long,
                  "train-busy.html": maker.train_on_a_busy_host, "analyze.html": maker.analyze,
                  "run.html": maker.run, "run-empty.html": maker.run_without_work,
                  "predict.html": maker.predict, "predict-plot.svg": maker.predict_plot,
                  "profile-plot.svg": maker.profile_plot, "schedule.html": maker.schedule,
                  "experiments.html": maker.experiments, "sweep.html": maker.sweep}
        if options.only:
            makers = {name: make for name, make in makers.items()
                      if pathlib.Path(name).stem == options.only}
        failures = views = 0
        for name, make in makers.items():
            make(output / name)
        browser = open_browser(scratch)
        try:
            for name in makers:
                page = output / name
                svg = page.suffix == ".svg"
                for width in WIDTHS[:1] if svg else WIDTHS:
                    schemes = ("light", "dark") + (("print",) if width == PAPER_PX else ())
                    for scheme in schemes[:1] if svg else schemes:
                        show(browser, page, width, scheme)
                        wrong = browser.execute_script(LOOK, LEAST_TEXT_PX, width >= 800)
                        screenshot(browser, output / f"{page.stem}-{width}-{scheme}.png")
                        if width == WIDTHS[0] and scheme == "light" and not svg:
                            wrong += try_tips_and_zoom(browser)
                        wrong += fetched(browser)
                        views += 1
                        failures += bool(wrong)
                        for sentence in wrong[:20]:
                            print(f"{name} at {width} px, {scheme}: {sentence}")
        finally:
            browser.quit()
    print(f"{len(makers)} reports, {views} views, {failures} with faults")
    return 1 if failures or views == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
