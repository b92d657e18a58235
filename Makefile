# The commands of everyday work; each sets up what it needs on a bare Debian 12.
#   make test    build, then every test: unit, fuzz corpora, consumers, lint; sanitizers
#   make demo    train ResNet-18 on an emulated V100 and show where the time goes
#   make bench   run the benchmarks and print one table
#   make lint    clang-format, house rules, clang-tidy on every file
#   make format  format every file
#   make docs    bring what the documents print of the command and the sources up to date
#   make demo-torch    train ResNet-50 with an unmodified wheel of PyTorch (1.2 GB to download)
#   make conformance   run PyTorch's wheels through the conformance programs (5 GB to download)
#   make cluster-test  run pods on a Kubernetes cluster on this machine (needs root, builds it once)
#   make pods-test     run CUDA programs in pods of such a cluster, by all ways (1.2 GB to download)
#   make slurm-test  give tasks of a Slurm cluster on this machine GPUs (needs root)
#   make scheduler-test  schedule pods on hollow nodes of such a cluster, beside kube-scheduler
#   make setup   only install the packages
.PHONY: test demo demo-torch bench lint format docs conformance cluster-test pods-test \
  scheduler-test slurm-test setup

test:
	@scripts/check/test.sh

demo:
	@scripts/demo/demo.sh

demo-torch:
	@scripts/demo/demo_torch.sh

bench:
	@scripts/claims/bench.sh

lint:
	@scripts/build/setup.sh lint
	@scripts/build/format.sh --check
	@scripts/check/lint.py
	@cmake --preset tidy --log-level=WARNING
	@cmake --build --preset tidy

format:
	@scripts/build/setup.sh lint
	@scripts/build/format.sh

docs:
	@scripts/build/setup.sh
	@cmake --preset dev --log-level=WARNING
	@cmake --build --preset dev --target gpemu gpemu-slurm gpemu_profiles
	@scripts/generate/generate_docs.py
	@scripts/check/check_docs.py --exact --update

conformance:
	@scripts/check/conformance.sh

cluster-test:
	@tests/cluster/cluster_test.py

pods-test:
	@scripts/check/pods.sh

scheduler-test:
	@scripts/check/scheduler.sh

slurm-test:
	@scripts/check/slurm.sh

setup:
	@scripts/build/setup.sh
