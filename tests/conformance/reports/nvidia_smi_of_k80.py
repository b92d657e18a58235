# SPDX-License-Identifier: Apache-2.0
"""https://github.com/chrischoy/SpatioTemporalSegmentation/issues/27: idle K80s in nvidia-smi.

GPU: K80:2
Shows: 0  Tesla K80
Shows: / *149W
Shows: 0MiB / *11441MiB
Shows: 1  Tesla K80
Shows: / *149W
Shows: 0MiB / *11441MiB
"""

import subprocess

print(subprocess.check_output(["nvidia-smi"], text=True))
