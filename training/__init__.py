"""Training: the recipes, the parent process of a run, and the command line `python -m training`."""

import os

# Before torch is imported. OpenMP's threads otherwise spin while they wait for each other, and two programs on the same
# cores, such as an evaluation beside a training, slow each other down many times over.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
