# SPDX-License-Identifier: Apache-2.0
"""Reads include/dhow/*.h through the preprocessor and writes what the Python module takes from them: the declarations for
cffi, and errors.py, ops.py, _builder.py and _structs.py with what there is for each status, operation, layer and struct. No declaration
is written down a second time. scripts/wheel runs it by setup.py."""
import os
import re
import subprocess

HEADERS = "#include <dhow/dhow.h>\n#include <dhow/dlpack.h>\n"
HEAD = "# SPDX-License-Identifier: Apache-2.0\n# Written by python/generate.py from include/dhow.\n"

# What capsules need in C: a destructor that Python can call while it ends. And the callback that takes printed text.
CALLBACKS = """
#define DHOW_ALL_DIMS ...
void *dhow_py_end_capsule_address(void);
extern "Python" void dhow_py_take_text(void *, const char *, uint64_t);
"""
SOURCE = HEADERS + r"""
static void end_managed(PyObject *capsule) { /* whoever takes a capsule renames it; else its tensor ends here */
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        DLManagedTensorVersioned *managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        Py_BEGIN_ALLOW_THREADS managed->deleter(managed);
        Py_END_ALLOW_THREADS
    } else if (PyCapsule_IsValid(capsule, "dltensor")) {
        DLManagedTensor *managed = PyCapsule_GetPointer(capsule, "dltensor");
        Py_BEGIN_ALLOW_THREADS managed->deleter(managed);
        Py_END_ALLOW_THREADS
    }
}
static void *dhow_py_end_capsule_address(void) { return (void *)(uintptr_t)end_managed; }
"""

# ---- reading ----


def preprocessed(include):
    """[(name of the header, its text with comments)], in order."""
    cc = os.environ.get("CC", "cc")
    text = subprocess.run([cc, "-E", "-C", "-I", include, "-x", "c", "-"], input=HEADERS, capture_output=True, text=True,
                          check=True).stdout
    parts, name, lines = [], "", []
    for line in text.splitlines():
        marker = re.match(r'# \d+ "(.*?)"', line)
        if marker:
            path = marker.group(1)
            parts.append((name, "\n".join(lines)))
            name, lines = os.path.basename(path) if path.startswith(include) else "", []
        else:
            lines.append(line)
    parts.append((name, "\n".join(lines)))
    return [(name, text) for name, text in parts if name]


def plain(text):
    text = re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", "", text)
    body = r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}"
    return re.sub(r"static inline([^;{]*)%s" % body, r"\1;", text)  # a function like the others for who calls it


def declarations(parts):
    """For cffi."""
    text = "\n".join(text for _, text in parts)
    text = re.sub(r"/\*.*?\*/", " ", plain(re.sub(r"/\*.*?\*/", " ", text, flags=re.S)), flags=re.S)
    text = re.sub(r"dhow_status dhow_set_error\([^;]*;", "", text)  # printf() is for C
    return re.sub(r"\n\s*\n+", "\n", text) + CALLBACKS


def functions(parts):
    """(header, name, [(type, name)], comment) of all functions that return a status."""
    by_header = {}
    for name, text in parts:
        by_header[name] = by_header.get(name, "") + "\n" + text
    for header, text in by_header.items():
        for found in re.finditer(r"(?:/\*\*((?:[^*]|\*(?!/))*)\*/)?\s*dhow_status\s+(dhow_\w+)\(([^;]*)\)\s*;", plain(text)):
            arguments = [re.match(r"(.*?)(\w+)(\[\d*\])?$", " ".join(a.split())) for a in found.group(3).split(",")]
            if all(arguments):
                yield header, found.group(2), [(a.group(1).strip(), a.group(2)) for a in arguments], found.group(1) or ""


def enumerators(text, prefix):
    return re.findall(r"\b%s(\w+) = (\d+)" % prefix, text)


def window_fields(text):
    body = re.search(r"typedef struct dhow_window \{(.*?)\} dhow_window;", text, re.S).group(1)
    return [name for name in re.findall(r"(\w+)(?:\[\d\])?;", re.sub(r"/\*.*?\*/", "", body, flags=re.S)) if name != "struct_size"]


# ---- writing ----

KINDS = {  # C type: letter of the plan that _call.py reads, Python type
    "dhow_tensor *": ("t", "Tensor | Number"), "double": ("f", "float"), "float": ("f", "float"), "int32_t": ("i", "int"),
    "int64_t": ("i", "int"), "uint64_t": ("i", "int"), "dhow_scalar": ("s", "Number"), "dhow_reduction": ("r", "str"), "const char *": ("n", "str"),
    "dhow_pad_mode": ("p", "str"), "dhow_interpolation": ("j", "str"), "dhow_scatter_mode": ("c", "str"), "dhow_model_value": ("i", "int"), "dhow_dtype": ("y", "str"), "const dhow_window *": ("w", "")}
LISTS = {"dhow_tensor *const *": ("L", "Sequence[Tensor]"), "const int32_t *": ("d", "int | Sequence[int]"),
         "const int64_t *": ("e", "Sequence[int]"), "const dhow_model_value *": ("v", "Sequence[int]")}  # and a count behind
OPTIONAL_LISTS = {"const int64_t *": ("z", "Sequence[int]"), "const double *": ("q", "Sequence[float]")}
CONV_FIELDS = ("kernel", "stride", "padding", "dilation", "output_padding", "groups")
DEFAULTS = {"dims": "()", "correction": "1", "largest": "True", "eps": "1e-5", "bias": "True", "mask": "-1", "keep_dims": "False",
            "layers": "1", "bidirectional": "False", "mode": '"constant"', "value": "0", "reduce": '"replace"', "descending": "False",
            "is_causal": "False", "align_corners": "False", "scale": "0"}
FLAGS = {"bias", "is_causal", "align_corners", "largest", "keep_dims", "bidirectional", "descending"}


def parameters(arguments, comment, fields):
    """The plan, the parameters as Python declares them, and the values of a call."""
    plan, declared, values, behind = "", [], [], []
    skip = False
    for i, (kind, name) in enumerate(arguments):
        if skip:
            skip = False
        elif kind in OPTIONAL_LISTS and (i + 1 == len(arguments) or arguments[i + 1][0] != "uint32_t"):
            letter, python = OPTIONAL_LISTS[kind]
            plan += letter
            declared.append("%s: %s | None = None" % (name, python))
            values.append(name)
        elif kind == "const dhow_conv_options *":
            plan += "k"
            own = [field for field in CONV_FIELDS if field != "kernel" or {"in_channels"} & {n for _, n in arguments}]
            behind = ["%s: int | Sequence[int] = %d" % (field, field == "kernel") for field in own]
            values.append("dict(%s)" % ", ".join("%s=%s" % (field, field) for field in own))
        elif kind in LISTS:
            letter, python = LISTS[kind]
            plan, skip = plan + letter, True
            declared.append("%s: %s%s" % (name, python, " = " + DEFAULTS[name] if name in DEFAULTS else ""))
            values.append(name)
        elif kind == "int32_t" and name == "rank":
            skip, plan = True, plan + "S"
            declared.append("shape: Sequence[int]")
            values.append("shape")
        elif kind == "const dhow_window *":
            plan += "w"
            if not {"weight", "in_channels"} & {n for _, n in arguments}:  # a pooling
                declared.append("kernel: int | Sequence[int]")
            behind = ["%s: int | Sequence[int] = 0" % field for field in fields if not declared[-1].startswith(field)]
            values.append("dict(%s)" % ", ".join("%s=%s" % (field, field) for field in fields))
        else:
            letter, python = KINDS[kind]
            nearest = kind == "dhow_interpolation"
            if python == "Tensor | Number" and sum(k == kind for k, _ in arguments) == 1:
                python = "Tensor"
            default = '"nearest"' if nearest else DEFAULTS.get(name) if name != "value" or kind == "double" else None
            default = default if letter != "t" else None
            if letter == "t" and re.search(r"@param [\w, ]*\b%s\b[^@]*or NULL" % name, comment):
                letter, python, default = "o", "Tensor | None", "None"
            if letter == "i" and name in FLAGS:
                python = "bool"
            plan += letter
            declared.append("%s: %s%s" % (name, python, " = " + default if default else ""))
            values.append(name)
    needed = max((i for i, d in enumerate(declared) if " = " not in d), default=-1)
    declared = [d.split(" = ")[0] if i < needed else d for i, d in enumerate(declared)]  # nothing after a default is needed
    return plan, declared, values, behind


def document(comment, results):
    lines = [re.sub(r"^\s*\* ?", "", line) for line in comment.strip().splitlines()]
    text = "\n".join(lines).split("@return")[0]
    said, *params = re.split(r"\n(?=@param)", text.strip())
    kept = [" ".join(p.split()) for p in params if not re.match(r"@param (stream|model|out|window|%s)\b" % "|".join(results), p)]
    kept = [re.sub(r"^@param (\w+(?:, \w+)*) ", r":param \1: ", p) for p in kept]
    body = " ".join(said.split()) + ("\n\n" + "\n".join(kept) if kept else "")
    return body.replace("\\", "\\\\").replace("\n", "\n    ")


def write_ops(parts, fields):
    names, out = [], []
    for header, c_name, arguments, comment in functions(parts):
        name = c_name[len("dhow_"):]
        if (header not in ("ops.h", "elementwise.h", "reduce.h", "copy.h", "nn.h") or arguments[0][0] != "dhow_stream *" or
                arguments[-1][0] != "dhow_tensor *" or name.endswith("_scalar") or name == "cast"):
            continue
        count = 2 if name in ("topk", "sort") else 1
        results = [n for _, n in arguments[-count:]]
        plan, declared, values, behind = parameters(arguments[1:-count], comment, fields)
        kind = "Tensor" if count == 1 else "tuple[Tensor, Tensor]"
        words = ", ".join(declared + ["*"] + behind + ["out: %s | None = None" % kind, "stream: Stream | None = None"])
        rule = '"bool"' if "y is bool" in " ".join(comment.split()) else "None"
        names.append(name)
        out.append('\n\ndef %s(%s) -> %s:\n    """%s"""\n    return _call.operation(_lib.%s, "%s", "%s", (%s,), %s, out, stream)%s\n' % (
            name, words, kind, document(comment, results), c_name, name, plan, ", ".join(values), rule,
            "  # type: ignore[return-value]" if count > 1 else ""))
    head = '"""The operations of dhow by name. Each makes its result, or writes to `out`."""\nfrom __future__ import annotations\n\n' \
        "from collections.abc import Sequence\n\nfrom . import _call\nfrom ._call import Number\nfrom ._dhow import lib as _lib\n" \
        "from ._device import Stream\nfrom ._tensor import Tensor\n\n__all__ = [\n    %s,\n]\n" % ",\n    ".join('"%s"' % n for n in names)
    return HEAD + head + "".join(out)


def write_builder(parts, fields):
    out = []
    for header, c_name, arguments, comment in functions(parts):
        name = c_name[len("dhow_model_"):]
        made = sum(kind == "dhow_model_value *" for kind, _ in arguments)
        if (not header.startswith("model") or arguments[0] != ("dhow_model *", "model") or name in ("sequential", "split", "chunk") or
                not (made or name in ("output", "begin_scope", "end_scope"))):
            continue
        plan, declared, values, behind = parameters(arguments[1:len(arguments) - made], comment, fields)
        words = ", ".join(["self"] + declared + (["*"] + behind if behind else []))
        out.append('\n    def %s(%s) -> %s:\n        """%s"""\n        %s(self._handle, _lib.%s, "%s", "%s", (%s))\n' % (
            name, words, ("None", "int", "tuple[int, int]")[made], document(comment, ["out", "values", "indices"] if made == 2 else ["out"]).replace("\n", "\n    "),
            ("_call.mark", "return _call.layer", "return _call.layer_of_two")[made], c_name, name, plan,
            "".join(v + ", " for v in values).strip()))
    head = '"""Models built step by step: each layer takes values, which are numbers, and gives one."""\nfrom __future__ import annotations\n\n' \
        "from collections.abc import Sequence\nfrom typing import Any\n\nfrom . import _call\nfrom ._call import Number\n" \
        "from ._dhow import lib as _lib\n\n\nclass Builder:\n    _handle: Any\n"
    return HEAD + head + "".join(out)


NATURAL = {"INVALID_ARGUMENT": "ValueError", "OUT_OF_RANGE": "IndexError, ValueError", "OUT_OF_MEMORY": "MemoryError",
           "NOT_FOUND": "LookupError", "UNSUPPORTED": "NotImplementedError", "IO_ERROR": "OSError", "TIMED_OUT": "TimeoutError",
           "CORRUPT": "ValueError"}


def write_errors(include):
    with open(os.path.join(include, "dhow", "types.h"), encoding="utf-8") as file:
        rows = re.search(r"#define DHOW_STATUS_MAP\(X\)((?:.*\\\n)*.*)", file.read()).group(1)
    out = [HEAD, '"""A class for each way to fail; `except dhow.Error` catches all of them."""\n\n\nclass Error(RuntimeError):\n'
           '    """A call of dhow failed; the text says what, why and what to try."""\n    status: int = 0\n    native_code: int = 0\n']
    table = []
    for name, number, meaning in re.findall(r'X\((\w+), (\d+),\s*"([^"]*)"\)', rows):
        if name != "OK":
            camel = "".join(word.capitalize() for word in name.split("_")).replace("IoError", "IOFailed")
            bases = "Error" + (", " + NATURAL[name] if name in NATURAL else "")
            out.append('\n\nclass %s(%s):\n    """%s"""\n    status = %s\n' % (camel, bases, meaning, number))
            table.append("%s: %s" % (number, camel))
    out.append('\n\nclass FileMissing(NotFound, FileNotFoundError):\n    """a file does not exist"""\n')
    out.append("\n\nBY_STATUS: dict[int, type[Error]] = {%s}\n" % ", ".join(table))
    return "".join(out)


STRUCTS = {"dhow_model_summary": "Summary", "dhow_memory_stats": "MemoryStats"}


def write_structs(text):
    out = [HEAD, '"""Structs of numbers that dhow fills."""\nfrom dataclasses import dataclass\n']
    for struct, name in STRUCTS.items():
        body = re.search(r"typedef struct %s \{(.*?)\} %s;" % (struct, struct), text, re.S).group(1)
        fields = re.findall(r"(\w+);\s*(?:/\*\*<([^*]*)\*/)?", body)
        out.append('\n\n@dataclass(frozen=True)\nclass %s:\n    """%s of the C API."""\n' % (name, struct))
        out += ["    %s: int%s\n" % (field, "  # " + " ".join(said.split()) if said else "") for field, said in fields if field != "struct_size"]
    return "".join(out)


def generate(include, folder):
    """Writes the modules into a folder, and gives the declarations for cffi."""
    parts = preprocessed(include)
    text = "\n".join(text for _, text in parts)
    fields = window_fields(text)
    for name, content in (("ops.py", write_ops(parts, fields)), ("_builder.py", write_builder(parts, fields)),
                          ("errors.py", write_errors(include)), ("_structs.py", write_structs(text))):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(content)
    return declarations(parts)
