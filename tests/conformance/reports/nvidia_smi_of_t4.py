# SPDX-License-Identifier: Apache-2.0
"""https://github.com/robbyant-research/MagicQuill/issues/57: an idle T4 in nvidia-smi.

GPU: T4
Shows: Tesla T4
Shows: / *70W
Shows: MiB / *15360MiB
Shows: No running processes found
"""

import subprocess

print(subprocess.check_output(["nvidia-smi"], text=True))
