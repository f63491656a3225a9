"""The environment that says how many threads a process's libraries take, and what they do between two calls."""

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
ASLEEP = {"OPENBLAS_THREAD_TIMEOUT": "4"}  # else its threads spin on after a product, on what is timed next
