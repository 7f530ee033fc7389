"""A kernel that writes outside its memory: the program hears of it, from then on always, and goes on living."""

import faulthandler
import warnings

import numpy as np
from numba import cuda

warnings.simplefilter("ignore")
faulthandler.enable()  # a handler of the program's own must not be in the way


@cuda.jit
def kernel(x):  # type: ignore[no-untyped-def]
    x[1 << 40] = 1


data = cuda.to_device(np.zeros(10))
kernel[1, 1](data)
for call in (cuda.synchronize, cuda.current_context().get_memory_info):
    try:
        call()
        print("no error")
    except Exception as error:
        print(error)
print("alive", flush=True)
