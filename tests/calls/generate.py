#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""generate.py HEADERS... > calls.inc: for each public function a call with arguments drawn by their types and names, and a table of all of them."""
import re
import sys

HANDLES = "device stream event graph tensor module kernel model safetensors dataset loader sink datum parallel trainer context".split()
NUMBERS = {"int32_t": "i32", "uint32_t": "u32", "int64_t": "i64", "uint64_t": "u64", "double": "f64", "float": "f32"}
ENUMS = ("dtype precision placement reduction pad_mode scatter_mode interpolation status loss optimizer schedule_kind layer_kind value_kind datum_kind plugin_state copy_path "
         "device_kind").split()
# What a caller promises cannot be drawn: calls.c has these by hand, or they have no place here.
BY_HAND = {"dhow_context_create", "dhow_context_release", "dhow_context_retain", "dhow_tensor_retain", "dhow_model_run_named", "dhow_model_load_memory",
           "dhow_launch_values", "dhow_launch_grid_values", "dhow_tensor_to_dlpack", "dhow_tensor_to_dlpack_unversioned", "dhow_loader_next",
           "dhow_trainer_step"}
LEFT_OUT = {"dhow_tensor_wrap_device", "dhow_stream_wrap", "dhow_stream_wait_native",  # a number made up is a wild pointer
            "dhow_tensor_from_dlpack", "dhow_tensor_from_dlpack_unversioned",  # dlpack_test
            "dhow_set_error",  # variadic
            "dhow_kernel_get",  # kernels of the library promise nothing about lengths
            "dhow_model_cancel"}  # for another thread


def strip(text):
    return " ".join(re.sub(r"/\*.*?\*/", " ", text, flags=re.S).split())


def split(text):
    """The parameters of a list, commas within parentheses kept."""
    parts, depth, part = [], 0, ""
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += letter
    return [p for p in parts + [part.strip()] if p and p != "void"]


def declared(text):
    """Type, name and extent of `const int64_t shape[8]`, `void (*release)(void *user)`."""
    function = re.match(r".*?\(\*(\w+)\)\(.*\)$", text)
    if function:
        return "function", function.group(1), ""
    match = re.match(r"(.*?)(\w+)((?:\[\w*\])?)$", text)
    return match.group(1).strip(), match.group(2), match.group(3).strip("[]")


class Header:
    def __init__(self, paths):
        self.structs, self.functions = {}, []
        for path in paths:
            text = open(path).read()
            for match in re.finditer(r"typedef struct (dhow_\w+) \{(.*?)\n\}", text, re.S):
                self.structs[match.group(1)] = self.fields(strip(match.group(2)))
            for match in re.finditer(r"((?:/\*\*(?:(?!\*/).)*\*/)?)\s*\n(?:DHOW_API )([^;{]*);", text, re.S):
                declaration = strip(match.group(2)).replace("DHOW_NODISCARD ", "")
                parts = re.match(r"(.*?)(dhow_\w+)\s*\((.*)\)", declaration)
                self.functions.append((parts.group(1).strip(), parts.group(2), split(parts.group(3)), strip(match.group(1).replace("/**", "").replace("*/", ""))))

    @staticmethod
    def fields(text):
        if "union" in text or "(*extents)" in text or "][" in text:
            return None  # only callbacks and hand-written calls have these
        found = []
        for field in filter(None, (f.strip() for f in text.split(";"))):
            first = declared(split(field)[0])
            found.append(first)
            found += [(first[0],) + declared("x " + more)[1:] for more in split(field)[1:]]
        return found


def handle(ctype):
    match = re.match(r"(?:const )?dhow_(\w+) \*$", ctype)
    return match.group(1) if match and match.group(1) in HANDLES else None


def draw(ctype, name, header, small):
    """An expression of the type, or None where it is an output."""
    base = ctype.replace("const ", "").replace("struct ", "").strip()
    if ctype in NUMBERS:
        return 'draw_%s("%s")' % (NUMBERS[ctype], name)
    if ctype == "dhow_model_value":
        return "draw_value()"
    if ctype == "dhow_scalar":
        return "draw_scalar()"
    if re.sub("^dhow_", "", ctype) in ENUMS:
        return "(%s)draw_enumerator()" % ctype
    if handle(ctype) == "tensor":
        return 'draw_tensor("%s")' % name
    if handle(ctype):
        return "draw_handle(%s)" % handle(ctype).upper()
    if ctype in ("const char *",):
        return 'draw_text("%s")' % name
    if ctype == "const char *const *":
        return 'draw_texts("%s")' % name
    if ctype in ("const int64_t *",):
        return "draw_i64s(%d)" % small
    if ctype in ("const int32_t *", "const double *", "const dhow_model_value *"):
        return "draw_%ss()" % {"const int32_t *": "i32", "const double *": "f64", "const dhow_model_value *": "value"}[ctype]
    if re.match(r"dhow_(tensor|device|dataset|datum) \*const \*", ctype):
        return "(%s)draw_handles(%s)" % (ctype, ctype.split()[0][5:].upper())
    if ctype in ("void *", "const void *"):
        return "NULL" if name in ("user", "log_user", "collate_user") else "draw_bytes()"
    if ctype.startswith("const ") and base.endswith(" *") and base[:-2] in header.structs:
        return "draw_%s()" % base[:-2]
    return None


CALLBACKS = {"release": "released", "all_reduce": "reduce_nothing", "take": "take_rows", "read": "read_rows", "map": "map_rows", "collate": "NULL", "activation": "dhow_model_relu"}
POINTERS = {"dhow_graph_work *": "graph_work", "dhow_state_fn *": "told", "dhow_text_writer": "write_text", "dhow_log_fn": "NULL"}


def struct_text(name, fields, header):
    """draw_NAME(): NULL, or an array of 16 whose fields are 0 or drawn."""
    text = ["static const %s *draw_%s(void) {" % (name, name), "    if (absent()) return NULL;",
            "    %s *drawn = scratch(16 * sizeof *drawn);" % name, "    for (int i = 0; i < 16; i++) {"]
    for ctype, field, extent in fields:
        if field == "images":
            continue  # addresses of functions
        if field == "struct_size":
            text.append("        drawn[i].struct_size = draw_size(sizeof *drawn);")
            continue
        if ctype == "function":
            value = CALLBACKS[field]
        elif ctype in POINTERS:
            value = POINTERS[ctype]
        else:
            value = draw(ctype, field, header, 0)
        if value is None:
            continue
        if ctype == "const struct dhow_layer *" or (extent and not value.startswith("draw_")):
            continue  # layers within layers are drawn flat
        if extent:
            text.append("        %sfor (int j = 0; j < %s; j++) drawn[i].%s[j] = %s;" % ("" if field == "kernel" else "if (given()) ", extent, field, value))
        elif ctype == "function" or ctype in POINTERS:
            text.append("        drawn[i].%s = %s;" % (field, value))
        else:
            text.append("        if (given()) drawn[i].%s = %s;" % (field, value))
    return "\n".join(text + ["    }", "    return drawn;", "}", ""])


def promises(comment):
    """What the comment says of each parameter."""
    found = {}
    for names, text in re.findall(r"@param ((?:\w+, )*\w+) (.*?)(?=@param|@return|Ownership:|Threads:|$)", comment):
        found.update((name, text) for name in names.split(", "))
    return found


def call_text(result, name, parameters, comment, header):
    before, arguments, after = [], [], []
    small = any(declared(p)[1] == "data" for p in parameters)
    owned = re.search(r"(\*out is|are) owned", comment)
    promised = promises(comment)
    # of a list whose length is 0 nothing is written
    count = next((c for c in ("output_count", "part_count", "count") if any(declared(p)[1] == c for p in parameters)), "1")
    for parameter in parameters:
        ctype, argument, extent = declared(parameter)
        pointer = re.match(r"dhow_(\w+) \*\*$", ctype)
        value = None
        if ctype == "function":
            value = CALLBACKS[argument]
        elif ctype in POINTERS:
            value = POINTERS[ctype]
        elif pointer and pointer.group(1) in HANDLES:
            before.append("    void **%s = new_outputs();" % argument)
            value = "(%s)%s" % (ctype, argument)
            after.append("    check_outputs(%s, %s, answer, %s);" % (pointer.group(1).upper(), argument, "1" if owned else "0"))
            if "NULL on errors" in promised.get(argument, ""):
                after.append("    if (answer != DHOW_OK && %s > 0) check_null(%s);" % (count, argument))
        elif re.search(r"_(release|close)$", name):
            value = "taken(%s)" % handle(ctype).upper()
        else:
            value = draw(ctype, argument, header, small)
        if value is None:
            base = ctype.rstrip("* ").replace("const ", "")
            if base in header.structs:
                before.append("    %s *%s = draw_record(sizeof(%s));" % (base, argument, base))
                value = argument
                if "cleared on errors" in promised.get(argument, ""):
                    before.append("    spoil(%s, sizeof *%s);" % (argument, argument))
                    after.append("    if (answer != DHOW_OK) check_cleared(%s, sizeof *%s);" % (argument, argument))
                after += ["    if (answer == DHOW_OK && %s != NULL) touch(%s->%s);" % (argument, argument, field)
                          for kind, field, _ in header.structs[base] or [] if kind == "const char *" and not argument.endswith("outputs")]
            else:
                value = "absent() ? NULL : scratch(1024)"
                if ctype == "dhow_model_value *" and "-1 on errors" in promised.get(argument, ""):
                    after.append("    if (answer != DHOW_OK && %s > 0 && %s != NULL && *%s != -1) broken(\"%s is not -1\");" % (count, argument, argument, argument))
        if "%s" % argument not in " ".join(before) or value.startswith("draw") or value.startswith("absent"):
            if not value.startswith("(" + ctype + ")" + argument) and value != argument:
                if ctype == "function" or ctype in POINTERS:
                    arguments.append(value)
                    continue
                before.append("    %s%s%s = %s;" % (ctype, "" if ctype.endswith("*") else " ", argument, value))
                value = argument
        arguments.append(value)
    anywhere = re.search(r"Threads:\s+(any|as dhow_model_run)", comment) is not None
    lines = ["static dhow_status call_%s(void) {" % name, "    draw_sharing(%d);" % anywhere] + before
    call = "%s(%s)" % (name, ", ".join(arguments))
    if result == "dhow_status":
        lines += ["    begin_call(\"%s\");" % name, "    const dhow_status answer = %s;" % call] + after + ["    return answer;", "}", ""]
    elif result.startswith("const char"):
        lines += ["    begin_call(\"%s\");" % name, "    touch(%s);" % call, "    return NO_STATUS;", "}", ""]
    else:
        lines += ["    begin_call(\"%s\");" % name, "    (void)%s;" % call if result != "void" else "    %s;" % call, "    return NO_STATUS;", "}", ""]
    return "\n".join(lines)


def main():
    header = Header(sys.argv[1:])
    used = set()
    texts = []
    names = []
    for result, name, parameters, comment in header.functions:
        if name in LEFT_OUT:
            continue
        names.append(name)
        if name not in BY_HAND:
            texts.append(call_text(result, name, parameters, comment, header))
    body = "\n".join(texts)
    structs = []
    pending = set(re.findall(r"draw_(dhow_\w+)\(", body)) | {"dhow_named_tensor", "dhow_context_options", "dhow_batch"}
    while pending - used:
        name = sorted(pending - used)[0]
        used.add(name)
        text = struct_text(name, header.structs[name], header) if header.structs[name] else ""
        pending |= set(re.findall(r"draw_(dhow_\w+)\(", text))
        structs.append((name, text))
    print("/* Written by generate.py. */")
    for name, text in structs:
        print("static const %s *draw_%s(void);" % (name, name))
    print()
    for name, text in structs:
        print(text)
    print(body)
    print("static const struct {\n    const char *name;\n    dhow_status (*call)(void);\n} k_calls[] = {")
    for name in names:
        print("    {\"%s\", call_%s}," % (name, name))
    print("};")


main()
