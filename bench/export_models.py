# SPDX-License-Identifier: Apache-2.0
"""Exports architectures of torchvision and timm, with random weights, for dhow-bench models and the tests:
export_models.py FOLDER [NAME ...] writes FOLDER/<name>/model.onnx, in0.npy, out0.npy and meta.json.

NAME is tv-<model of torchvision> or tm-<model of timm>; without names those of NAMES, each for what it has that others have not.
The expected output is ONNX Runtime's. Needs torch, torchvision, timm, onnx and onnxruntime from PyPI. What cannot be
exported is told at the end, and fails the program.
"""
import json
import os
import sys
import warnings

import numpy
import onnxruntime
import torch

NAMES = """tv-alexnet tv-vgg11_bn tv-resnet18 tv-resnext50_32x4d tv-wide_resnet50_2 tv-squeezenet1_1 tv-densenet121 tv-googlenet
tv-inception_v3 tv-mobilenet_v2 tv-mobilenet_v3_small tv-mnasnet0_5 tv-shufflenet_v2_x1_0 tv-efficientnet_b0
tv-regnet_y_400mf tv-convnext_tiny tv-vit_b_16 tv-swin_t tv-swin_v2_t tv-maxvit_t tv-lraspp_mobilenet_v3_large
tv-fcn_resnet50 tv-deeplabv3_mobilenet_v3_large tv-ssdlite320_mobilenet_v3_large tv-fcos_resnet50_fpn tv-retinanet_resnet50_fpn
tv-fasterrcnn_mobilenet_v3_large_320_fpn tv-fasterrcnn_resnet50_fpn tv-r3d_18 tv-r2plus1d_18 tv-s3d
tm-poolformer_s12 tm-hgnetv2_b0 tm-coat_tiny tm-coat_lite_tiny tm-mobilevit_s tm-mobilevitv2_100 tm-edgenext_small tm-efficientformer_l1
tm-efficientvit_b1 tm-fastvit_t8 tm-ghostnet_100 tm-hardcorenas_a tm-levit_128 tm-mixer_s16_224 tm-mobilenetv4_conv_small
tm-nfnet_l0 tm-pit_ti_224 tm-pvt_v2_b0 tm-repvgg_a0 tm-res2net50_14w_8s tm-resmlp_12_224 tm-resnest14d tm-rexnet_100 tm-sebotnet33ts_256
tm-selecsls42b tm-skresnet18 tm-tinynet_e tm-tnt_s_patch16_224 tm-tresnet_m tm-twins_svt_small tm-vovnet39a tm-xcit_nano_12_p16_224
tm-dla34 tm-dpn68 tm-cspresnet50 tm-crossvit_9_240 tm-convit_tiny tm-focalnet_tiny_srf tm-gcresnet33ts tm-gernet_s tm-halonet26t
tm-inception_next_tiny tm-lambda_resnet26t tm-lcnet_050 tm-legacy_seresnet18 tm-maxvit_nano_rw_256 tm-nest_tiny tm-repghostnet_050
tm-repvit_m1 tm-starnet_s1 tm-tiny_vit_5m_224 tm-visformer_tiny tm-volo_d1_224""".split()


def load(name):
    """A module in evaluation mode, and the shape of its input."""
    kind, model = name.split("-", 1)
    torch.manual_seed(1)
    if kind == "tm":
        import timm

        module = timm.create_model(model, pretrained=False, exportable=True)
        return module.eval(), (1, *module.default_cfg["input_size"])
    import torchvision

    options = {"weights": None}
    if "320" in model or model.endswith("_fpn"):
        options |= {"weights_backbone": None, "num_classes": 91}
    elif "fcn" in model or "deeplab" in model or "lraspp" in model:
        options |= {"weights_backbone": None, "num_classes": 21}
    elif model in ("googlenet", "inception_v3"):
        options |= {"init_weights": True}
    side = 320 if "320" in model else 299 if model == "inception_v3" else 224
    shape = (1, 3, 8, 112, 112) if model in ("r3d_18", "r2plus1d_18") else (1, 3, 16, 224, 224) if model == "s3d" else (1, 3, side, side)
    if model.endswith("_fpn") and "320" not in model:
        options |= {"min_size": side, "max_size": side}
    return torchvision.models.get_model(model, **options).eval(), shape


def first_tensor(result):
    while not isinstance(result, torch.Tensor):
        result = next(iter(result.values())) if isinstance(result, dict) else result[0]
    return result


class One(torch.nn.Module):
    """The first of a module's results."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return first_tensor(self.module(x))


def export(name, folder):
    module, shape = load(name)
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "model.onnx")
    x = torch.randn(shape, generator=torch.Generator().manual_seed(2))
    # Statistics of the random weights: without them deep networks end in zeros or infinities. Of two images, as one may end
    # in a single pixel.
    for norm in module.modules():
        if isinstance(norm, torch.nn.modules.batchnorm._BatchNorm):
            norm.momentum, norm.training = 1.0, True
    with torch.no_grad():
        module(torch.cat((x, x.flip(-1))))
        module.eval()
        torch.onnx.export(One(module), (x,), path, opset_version=17, input_names=["x"], output_names=["y"], dynamo=False)
    value = x.numpy()
    result = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": value})[0]
    numpy.save(os.path.join(folder, "in0.npy"), value)
    numpy.save(os.path.join(folder, "out0.npy"), result)
    with open(os.path.join(folder, "meta.json"), "w") as f:
        json.dump({"inputs": ["x"], "outputs": ["y"]}, f)


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    warnings.filterwarnings("ignore")
    torch.backends.mha.set_fastpath_enabled(False)  # which is no operator of ONNX
    folder, names, failed = sys.argv[1], sys.argv[2:] or NAMES, []
    for name in names:
        if os.path.exists(os.path.join(folder, name, "meta.json")):
            continue
        try:
            export(name, os.path.join(folder, name))
            print(name, flush=True)
        except Exception as error:  # whatever an exporter or a model raises
            failed.append("%s: %s" % (name, str(error).strip().split("\n")[0]))
    if failed:
        sys.exit("export_models: not exported:\n" + "\n".join(failed))


if __name__ == "__main__":
    main()
