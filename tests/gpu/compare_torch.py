# SPDX-License-Identifier: Apache-2.0
"""Results of dhow's operations on a device against PyTorch in double precision on the processor.

    compare_torch.py LIBDHOW DEVICE        exits with 1 where a result is off, or unlike NaN for NaN
"""
import ctypes
import os
import sys

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../bench"))
import open_dhow  # noqa: E402

torch.manual_seed(7)
DTYPES = {"f32": (1, torch.float32, 2e-5), "f64": (2, torch.float64, 1e-12), "f16": (3, torch.float16, 2e-3),
          "bf16": (4, torch.bfloat16, 1.6e-2)}


class Dhow(open_dhow.Dhow):
    def tensor(self, t, number):
        t = t.contiguous()
        out = ctypes.c_void_p()
        shape = (ctypes.c_int64 * max(t.dim(), 1))(*t.shape)
        self.ok(self.lib.dhow_tensor_from_data(self.device, number, t.dim(), shape, ctypes.c_void_p(t.data_ptr()),
                                               ctypes.byref(out)))
        return out

    def call(self, name, dtype, inputs, out_shape, *attributes):
        """Runs one operation; the arguments that follow the inputs come before the result."""
        number, torch_type, _ = DTYPES[dtype]
        handles = [None if t is None else self.tensor(t.to(torch_type), number) for t in inputs]
        result = torch.full(out_shape, 77.0, dtype=torch_type)
        handle = self.tensor(result, number)
        self.ok(getattr(self.lib, "dhow_" + name)(None, *handles, *attributes, handle))
        self.ok(self.lib.dhow_tensor_read(handle, ctypes.c_void_p(result.data_ptr()),
                                          ctypes.c_uint64(result.numel() * result.element_size())))
        for h in handles + [handle]:
            self.lib.dhow_tensor_release(h)
        return result.double()


def cases():
    """name, inputs, attributes of the call, reference on double tensors"""
    x, z = torch.randn(37, 1031), torch.randn(37, 1031)
    f = torch.nn.functional
    for name, fn in (("relu", torch.relu), ("gelu", f.gelu), ("gelu_tanh", lambda v: f.gelu(v, approximate="tanh")),
                     ("silu", f.silu), ("sigmoid", torch.sigmoid), ("tanh", torch.tanh), ("exp", torch.exp),
                     ("neg", torch.neg), ("abs", torch.abs)):
        yield name, [x], [], fn
    for name, fn in (("log", torch.log), ("sqrt", torch.sqrt)):
        yield name, [x.abs() + 0.01], [], fn
    for name, fn in (("add", torch.add), ("sub", torch.sub), ("mul", torch.mul), ("div", torch.div),
                     ("max", torch.maximum), ("min", torch.minimum)):
        yield name, [x, z.abs() + 0.5], [], fn
        yield name, [x, z[0].abs() + 0.5], [], fn
    for cols in (10, 1024, 4096, 8192, 10002):
        r = torch.randn(19, cols)
        yield "softmax", [r], [ctypes.c_int32(1)], lambda v: f.softmax(v, 1)
        yield "log_softmax", [r], [ctypes.c_int32(1)], lambda v: f.log_softmax(v, 1)
        yield ("layernorm", [r, torch.randn(cols), torch.randn(cols)], [ctypes.c_float(1e-5)],
               lambda v, g, b: f.layer_norm(v, (v.shape[1],), g, b, 1e-5))
    for m, k, n in ((1, 1, 1), (5, 7, 3), (128, 256, 64), (333, 257, 129), (1, 784, 512)):
        yield "matmul", [torch.randn(m, k) / k ** 0.5, torch.randn(k, n)], [], torch.matmul
        yield ("linear", [torch.randn(m, k) / k ** 0.5, torch.randn(n, k), torch.randn(n)], [], f.linear)
    yield "matmul", [torch.randn(4, 33, 65) / 8, torch.randn(4, 65, 17)], [], torch.matmul
    yield ("conv2d", [torch.randn(2, 6, 19, 23) / 8, torch.randn(8, 3, 3, 3), torch.randn(8)],
           [open_dhow.Window((3, 3), (2, 1), (1, 1, 1, 1), (1, 1), 2)],
           lambda v, w, b: f.conv2d(v, w, b, stride=(2, 1), padding=1, groups=2))


def main():
    dhow = Dhow(sys.argv[1], sys.argv[2])
    failed = count = 0
    for name, inputs, attributes, fn in cases():
        for dtype, (_, torch_type, limit) in DTYPES.items():
            want = fn(*(t.to(torch_type).double() for t in inputs))
            passed = [ctypes.byref(a) if isinstance(a, ctypes.Structure) else a for a in attributes]
            got = dhow.call(name, dtype, inputs, want.shape, *passed)
            error = ((got - want).norm() / want.norm().clamp_min(1e-30)).item()
            count += 1
            if not error <= limit:
                failed += 1
                print("%s %s %s: relative error %.3g, at most %.3g" % (
                    name, dtype, [tuple(t.shape) for t in inputs], error, limit))
    print("compared with PyTorch %s: %d results, %d off" % (torch.__version__, count, failed))
    return 1 if failed else 0


sys.exit(main())
