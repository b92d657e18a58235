# The commands of everyday work; each sets up what it needs on a bare Debian 12.
#   make test    build, then every test: unit, fuzz corpora, consumers, lint; sanitizers
#   make demo    train ResNet-18 on an emulated V100 and show where the time goes
#   make bench   run the benchmarks and print one table
#   make lint    clang-format, house rules, clang-tidy on every file
#   make format  format every file
#   make docs    bring what the documents print of the command and the sources up to date
#   make demo-torch    train ResNet-50 with an unmodified wheel of PyTorch (1.2 GB to download)
#   make conformance   run PyTorch's wheels through the conformance programs (2.4 GB to download)
#   make setup   only install the packages
.PHONY: test demo demo-torch bench lint format docs conformance setup

test:
	@scripts/test.sh

demo:
	@scripts/demo.sh

demo-torch:
	@scripts/demo_torch.sh

bench:
	@scripts/bench.sh

lint:
	@scripts/setup.sh lint
	@scripts/format.sh --check
	@scripts/lint.py
	@cmake --preset tidy --log-level=WARNING
	@cmake --build --preset tidy

format:
	@scripts/setup.sh lint
	@scripts/format.sh

docs:
	@scripts/setup.sh
	@cmake --preset dev --log-level=WARNING
	@cmake --build --preset dev --target gpemu gpemu_profiles
	@scripts/generate_docs.py
	@scripts/check_docs.py --exact --update

conformance:
	@scripts/conformance.sh

setup:
	@scripts/setup.sh
