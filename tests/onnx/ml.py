# SPDX-License-Identifier: Apache-2.0
"""Writes ml.tar.gz beside this file: nodes of the domain ai.onnx.ml, Scan and texts, with what ONNX Runtime makes of them.

ml.py [FOLDER]: as microsoft.py, which it needs. What ZipMap gives in dhow, and here, is its input.
"""
from typing import Any, Sequence, Union

import numpy as np
import onnx
from onnx import helper, numpy_helper

from microsoft import Array, Suite, write

Attributes = dict[str, Any]
DOMAIN = "ai.onnx.ml"
POSTS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
NAN, INFINITY = float("nan"), float("inf")


def texts(*values: str) -> Array:
    return np.array(values, object)


def floats(x: Any) -> list[float]:
    return [float(v) for v in np.asarray(x).reshape(-1)]


def add_scores(s: Suite, name: str, op: str, x: Array, **attributes: Any) -> None:
    """Of a classifier the scores alone are asked for."""
    node = helper.make_node(op, ["i0"], ["classes", "o0"], domain=DOMAIN, **attributes)
    s.add_graph(name, [node], [("i0", x)], ["o0"])


# ---- features ----

def features(s: Suite) -> None:
    x, ints = s.numbers(3, 4), s.dice.randint(-3, 4, size=(3, 4))
    holes = x.copy()
    holes[0, 1] = holes[2, 3] = holes[2, 0] = np.nan
    names = texts("a", "bc", "", "d", "bc", "e").reshape(2, 3)
    for name, data in (("floats", x), ("doubles", x.astype(np.float64)), ("ints", ints), ("int32", ints.astype(np.int32)), ("row", x[0])):
        s.add(f"pick_{name}", "ArrayFeatureExtractor", [data, np.array([2, 0, 2], np.int64)])
    s.add("pick_one", "ArrayFeatureExtractor", [s.numbers(2, 3, 4), np.array([[1]], np.int64)], fixed=(1,))
    s.add("pick_texts", "ArrayFeatureExtractor", [names, np.array([2, 0, 1, 1], np.int64)])
    s.add("pick_texts_row", "ArrayFeatureExtractor", [names[1], np.array([1], np.int64)], fixed=(1,))
    s.add("binarizer", "Binarizer", [x], threshold=0.25)
    s.add("binarizer_plain", "Binarizer", [x.reshape(2, 3, 2)])
    s.add("vectorizer", "FeatureVectorizer", [x, s.numbers(3, 1), s.numbers(3, 2)], inputdimensions=[4, 1, 2])
    s.add("vectorizer_ints", "FeatureVectorizer", [ints, s.dice.randint(-3, 4, size=(3, 2))], inputdimensions=[4, 2])
    s.add("vectorizer_doubles", "FeatureVectorizer", [x.astype(np.float64)], inputdimensions=[4])
    s.add("imputer_nan", "Imputer", [holes], imputed_value_floats=[1.0, 2.0, 3.0, 4.0], replaced_value_float=NAN)
    s.add("imputer_nan_one", "Imputer", [holes], imputed_value_floats=[0.5], replaced_value_float=NAN)
    s.add("imputer_value", "Imputer", [x], imputed_value_floats=[9.0], replaced_value_float=float(x[1, 1]))
    s.add("imputer_ints", "Imputer", [ints], imputed_value_int64s=[10, 11, 12, 13], replaced_value_int64=int(ints[1, 1]))
    s.add("imputer_ints_one", "Imputer", [ints], imputed_value_int64s=[7])
    zeros = x.copy()
    zeros[1] = 0
    for norm in ("MAX", "L1", "L2"):
        s.add(f"normalizer_{norm}", "Normalizer", [zeros], norm=norm)
        s.add(f"normalizer_{norm}_row", "Normalizer", [zeros[2]], norm=norm)
    s.add("normalizer_ints", "Normalizer", [ints], norm="L1")
    s.add("normalizer_doubles", "Normalizer", [zeros.astype(np.float64)], norm="L2")
    for name, data in (("floats", x), ("doubles", x.astype(np.float64)), ("ints", ints), ("int32", ints.astype(np.int32))):
        s.add(f"scaler_{name}", "Scaler", [data], offset=[0.5, -1.0, 0.0, 2.0], scale=[2.0, 0.5, 1.0, -0.25])
    s.add("scaler_one", "Scaler", [x], offset=[0.5], scale=[2.0])


# ---- labels ----

def encoders(s: Suite) -> None:
    """Keys and values of each type, texts of no letters among them, and what has no key."""
    names, x = texts("", "b", "cd", "b", "?", "a").reshape(2, 3), np.array([[3, -1, 7], [0, 3, 9]], np.int64)
    real = np.array([[1.5, np.nan, 3], [-0.0, 7, 1.5]], np.float32)
    inputs: dict[str, Array] = {"strings": names, "int64s": x, "floats": real}
    keys: dict[str, list[Any]] = {"strings": ["a", "b", "", "cd"], "int64s": [3, 0, -1, 5], "floats": [1.5, 2.5, 0.0, 3.0]}
    values: dict[str, list[Any]] = {"strings": ["x", "", "zz", "y"], "int64s": [5, -2, 1 << 40, 7], "floats": [0.5, -0.25, NAN, INFINITY]}
    defaults: dict[str, tuple[str, Any]] = {"strings": ("default_string", "none"), "int64s": ("default_int64", -9),
                                            "floats": ("default_float", 2.5)}
    for k, data in inputs.items():
        for v in values:
            lists: Attributes = {f"keys_{k}": keys[k], f"values_{v}": values[v]}
            attribute, other = defaults[v]
            s.add(f"encoder_{k}_{v}", "LabelEncoder", [data], version=2, **lists)
            s.add(f"encoder_{k}_{v}_default", "LabelEncoder", [data], version=2, **lists, **{attribute: other})
    s.add("encoder_4_lists", "LabelEncoder", [names], version=4, keys_strings=["a", "b"], values_int64s=[4, 5])
    types: Attributes = {"strings": object, "int64s": np.int64, "floats": np.float32, "doubles": np.float64}
    inputs["doubles"], keys["doubles"], values["doubles"] = real.astype(np.float64), [1.5, NAN, 0.0, 3.0], values["floats"]
    keys["floats"] = keys["doubles"]  # of lists, ONNX Runtime never finds NaN
    for k, v in (("strings", "strings"), ("strings", "int64s"), ("strings", "floats"), ("int64s", "strings"), ("int64s", "int64s"),
                 ("int64s", "floats"), ("floats", "strings"), ("floats", "int64s"), ("floats", "floats"), ("doubles", "doubles"),
                 ("strings", "doubles"), ("doubles", "strings")):
        tensors: Attributes = {"keys_tensor": numpy_helper.from_array(np.array(keys[k], types[k]), "k"),
                   "values_tensor": numpy_helper.from_array(np.array(values[v], types[v]), "v"),
                   "default_tensor": numpy_helper.from_array(np.array([defaults[v.replace("double", "float")][1]], types[v]), "d")}
        s.add(f"encoder_tensors_{k}_{v}", "LabelEncoder", [inputs[k]], version=4, **tensors)
    short: Attributes = {"keys_tensor": numpy_helper.from_array(texts("b", "cd"), "k"),
             "values_tensor": numpy_helper.from_array(np.array([4, 5], np.int16), "v"),
             "default_tensor": numpy_helper.from_array(np.array([-1], np.int16), "d")}
    s.add("encoder_tensors_strings_int16", "LabelEncoder", [names], version=4, **short)
    classes = ["b", "cd", ""]
    s.add("encoder_1_strings", "LabelEncoder", [names], version=1, classes_strings=classes, default_int64=4)
    s.add("encoder_1_ints", "LabelEncoder", [np.array([2, 0, 3], np.int64)], version=1, classes_strings=classes, default_string="none")
    s.add("mapper_strings", "CategoryMapper", [names], cats_strings=classes, cats_int64s=[30, -1, 7])
    s.add("mapper_strings_default", "CategoryMapper", [names], cats_strings=classes, cats_int64s=[30, -1, 7], default_int64=8)
    s.add("mapper_ints", "CategoryMapper", [x], cats_strings=classes, cats_int64s=[3, -1, 7])
    s.add("mapper_ints_default", "CategoryMapper", [x], cats_strings=classes, cats_int64s=[3, -1, 7], default_string="none")


def one_hot(s: Suite) -> None:
    ints = np.array([[3, 1], [5, 4]], np.int64)
    for name, data in (("ints", ints), ("floats", ints.astype(np.float32) + np.float32(0.25)), ("doubles", ints.astype(np.float64))):
        s.add(f"one_hot_{name}", "OneHotEncoder", [data], cats_int64s=[5, 3, 0])
    s.add("one_hot_known", "OneHotEncoder", [ints], cats_int64s=[5, 4, 3, 1], zeros=0)
    s.add("one_hot_texts", "OneHotEncoder", [texts("b", "a", "", "?")], cats_strings=["a", "b", ""])
    s.add("one_hot_texts_known", "OneHotEncoder", [texts("b", "a").reshape(1, 2)], cats_strings=["a", "b", "c"], zeros=0)


def zip_map(s: Suite) -> None:
    """A list of dictionaries, says the file, or nothing."""
    x = s.numbers(3, 2)
    for kind, key, labels in (("int64s", onnx.TensorProto.INT64, [4, 7]), ("strings", onnx.TensorProto.STRING, ["no", "yes"])):
        named: Attributes = {f"classlabels_{kind}": labels}
        node = helper.make_node("ZipMap", ["x"], ["y"], domain=DOMAIN, **named)
        value = helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None)
        result = helper.make_value_info("y", helper.make_sequence_type_proto(helper.make_map_type_proto(key, value)))
        if kind == "int64s":
            result = onnx.ValueInfoProto(name="y")
        graph = helper.make_graph([node], "zip_map", [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [3, 2])], [result])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(DOMAIN, 1)], ir_version=8)
        s.files[f"test_zip_map_{kind}/model.onnx"] = model.SerializeToString()
        for place in ("input_0", "output_0"):
            s.files[f"test_zip_map_{kind}/test_data_set_0/{place}.pb"] = numpy_helper.from_array(x).SerializeToString()


# ---- weighted sums ----

def linear(s: Suite) -> None:
    x, weights = s.numbers(4, 3), floats(s.numbers(3, 3))
    ints = s.dice.randint(-3, 4, size=(4, 3))
    few: Attributes = {"coefficients": weights[:3], "intercepts": [0.125]}
    many: Attributes = {"coefficients": weights, "intercepts": [0.5, -0.25, 0.0]}
    for post in POSTS:
        near: Attributes = {"coefficients": [w / 8 for w in weights], "intercepts": [0.5, 0.375, 0.625]} if post == "PROBIT" else many
        s.add(f"linear_classes_{post}", "LinearClassifier", [x], 2, classlabels_ints=[3, 0, 7], post_transform=post, **near)
        s.add(f"linear_regressor_{post}", "LinearRegressor", [x], targets=3, post_transform=post, **near)
        if post != "PROBIT":
            s.add(f"linear_pair_{post}", "LinearClassifier", [x], 2, classlabels_ints=[5, -5], post_transform=post, **few)
        two: Attributes = {"coefficients": near["coefficients"][:6], "intercepts": near["intercepts"][:2]}
        s.add(f"linear_two_{post}", "LinearClassifier", [x], 2, classlabels_strings=["no", "yes"], post_transform=post, **two)
    s.add("linear_pair_texts", "LinearClassifier", [x], 2, classlabels_strings=["no", "yes"], **few)
    s.add("linear_classes_texts", "LinearClassifier", [x], 2, classlabels_strings=["a", "", "c"], **many)
    s.add("linear_row", "LinearClassifier", [x[0]], 2, classlabels_ints=[0, 1, 2], **many)
    s.add("linear_regressor", "LinearRegressor", [x], **few)
    s.add("linear_regressor_plain", "LinearRegressor", [x], targets=3, coefficients=weights)
    for name, dtype in (("ints", np.int64), ("int32", np.int32), ("doubles", np.float64)):
        s.add(f"linear_{name}", "LinearClassifier", [ints.astype(dtype)], 2, classlabels_ints=[0, 1, 2], **many)


# ---- support vectors ----

def support(s: Suite) -> None:
    x, vectors = s.numbers(5, 3), s.numbers(7, 3)
    for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID"):
        own: Attributes = {"kernel_type": kernel, "kernel_params": [0.5, 0.25, 3.0]}
        many: Attributes = {**own, "support_vectors": floats(vectors)}
        one: Attributes = {**many, "coefficients": floats(s.numbers(7)), "rho": [0.25], "n_supports": 7}
        s.add(f"svm_regressor_{kernel}", "SVMRegressor", [x], **one)
        s.add(f"svm_one_class_{kernel}", "SVMRegressor", [x], one_class=1, **one)
        for count, each in ((2, [3, 4]), (3, [3, 2, 2]), (4, [1, 2, 0, 4])):
            pairs = count * (count - 1) // 2
            parts: Attributes = {**many, "vectors_per_class": each, "coefficients": floats(s.numbers(count - 1, 7)),
                     "rho": floats(s.numbers(pairs) / 4)}
            labels: Attributes = {"classlabels_ints": [7, 3, -1, 4][:count]}
            named: Attributes = {"classlabels_strings": ["a", "", "c", "d"][:count]}
            s.add(f"svm_{count}_{kernel}", "SVMClassifier", [x], 2, **parts, **labels)
            estimates: Attributes = {"prob_a": floats(s.numbers(pairs) - 2), "prob_b": floats(s.numbers(pairs) / 4)}
            s.add(f"svm_{count}_{kernel}_probabilities", "SVMClassifier", [x], 2, **parts, **named, **estimates)
            for post in POSTS[1:4] if kernel == "RBF" else ():
                s.add(f"svm_{count}_{post}", "SVMClassifier", [x], 2, post_transform=post, **parts, **labels)
                s.add(f"svm_{count}_{post}_probabilities", "SVMClassifier", [x], 2, post_transform=post, **parts, **named, **estimates)
    plain: Attributes = {"kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 0.0]}
    s.add("svm_regressor_weights", "SVMRegressor", [x], coefficients=[0.5, -0.25, 2.0], rho=[0.125], **plain)
    s.add("svm_classes_weights", "SVMClassifier", [x], 2, classlabels_ints=[4, 2, 9], coefficients=floats(s.numbers(3, 3)),
          rho=[0.25], **plain)
    # By ONNX Runtime the second of two classes is chosen here nearly always.
    add_scores(s, "svm_classes_weights_two", "SVMClassifier", x, classlabels_strings=["no", "yes"], coefficients=floats(s.numbers(2, 3)),
               rho=[0.25], post_transform="LOGISTIC", **plain)


# ---- trees ----

Leaf = list[tuple[int, float]]  # targets and weights
Branch = tuple[int, str, Any, int, Any, Any]  # feature, mode, threshold or members, whether missing values are so, yes, no
Tree = Union[Leaf, Branch]


def grow(s: Suite, depth: int, width: int, targets: Sequence[int], modes: Sequence[str], dense: bool = False, positive: bool = False,
         missing: bool = False, root: bool = True) -> Tree:
    """A tree whose branches differ in depth; a leaf has a weight for one of the targets, or for each."""
    if depth == 0 or (not root and s.dice.randint(4) == 0):
        chosen = targets if dense else [targets[s.dice.randint(len(targets))]]
        return [(int(t), float(s.dice.randint(0 if positive else -16, 17) / 16)) for t in chosen]
    mode = modes[s.dice.randint(len(modes))]
    asked: Any = float(s.dice.randint(-6, 7) / 8)
    if mode == "BRANCH_MEMBER":
        asked = floats(s.dice.randint(1, 9, size=s.dice.randint(1, 5)))
    parts = [grow(s, depth - 1, width, targets, modes, dense, positive, missing, False) for _ in range(2)]
    return int(s.dice.randint(width)), mode, asked, int(missing and s.dice.randint(2)), parts[0], parts[1]


def by_ids(trees: Sequence[Tree], kind: str, tensors: bool = False, missing: bool = False) -> Attributes:
    """Attributes of TreeEnsembleRegressor ("target") and TreeEnsembleClassifier ("class")."""
    fields = ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids", "missing_value_tracks_true")
    out: Attributes = {f"nodes_{field}": [] for field in fields}
    out |= {f"{kind}_{field}": [] for field in ("treeids", "nodeids", "ids", "weights")}

    def put(tree: int, node: Tree, count: list[int]) -> int:
        own, at = count[0], len(out["nodes_treeids"])
        count[0] += 1
        branch = node if isinstance(node, tuple) else (0, "LEAF", 0.0, 0, None, None)
        for field, value in zip(fields, (tree, own, branch[0], branch[1], branch[2], 0, 0, branch[3])):
            out[f"nodes_{field}"].append(value)
        if isinstance(node, tuple):
            out["nodes_truenodeids"][at] = put(tree, node[4], count)
            out["nodes_falsenodeids"][at] = put(tree, node[5], count)
        else:
            for target, weight in node:
                for field, value in zip(("treeids", "nodeids", "ids", "weights"), (tree, own, target, weight)):
                    out[f"{kind}_{field}"].append(value)
        return own

    for i, tree in enumerate(trees):
        put(i, tree, [0])
    if not missing:
        del out["nodes_missing_value_tracks_true"]
    for field in ("nodes_values", f"{kind}_weights") if tensors else ():
        out[f"{field}_as_tensor"] = numpy_helper.from_array(np.array(out.pop(field), np.float64), field)
    return out


def by_place(trees: Sequence[Tree], dtype: Any, missing: bool = False) -> Attributes:
    """Attributes of TreeEnsemble, of which leaves have one weight."""
    ints = ("featureids", "truenodeids", "trueleafs", "falsenodeids", "falseleafs", "missing_value_tracks_true")
    out: dict[str, list[Any]] = {field: [] for field in (*ints, "splits", "modes", "roots", "members", "targets", "weights")}

    def put(node: Tree) -> tuple[int, int]:
        if not isinstance(node, tuple):
            out["targets"].append(node[0][0])
            out["weights"].append(node[0][1])
            return len(out["weights"]) - 1, 1
        at, member = len(out["modes"]), node[1] == "BRANCH_MEMBER"
        for field, value in zip((*ints, "splits"), (node[0], 0, 0, 0, 0, node[3], 0.0 if member else node[2])):
            out[field].append(value)
        out["modes"].append(MODES.index(node[1]))
        out["members"] += [*node[2], NAN] if member else []
        out["truenodeids"][at], out["trueleafs"][at] = put(node[4])
        out["falsenodeids"][at], out["falseleafs"][at] = put(node[5])
        return at, 0

    for tree in trees:
        out["roots"].append(put(tree)[0])
    made: Attributes = {f"nodes_{field}": out[field] for field in ints if missing or not field.startswith("missing")}
    made |= {"tree_roots": out["roots"], "leaf_targetids": out["targets"]}
    lists: Sequence[tuple[str, str, Any]] = (("nodes_splits", "splits", dtype), ("nodes_modes", "modes", np.uint8),
                                             ("leaf_weights", "weights", dtype), ("membership_values", "members", dtype))
    for name, field, own in lists:
        if out[field]:
            made[name] = numpy_helper.from_array(np.array(out[field], own), name)
    return made


def forest(s: Suite, count: int, targets: int = 1, modes: Sequence[str] = MODES[:1], **kind: bool) -> list[Tree]:
    return [grow(s, 3, 4, range(targets), modes, **kind) for _ in range(count)]


def table(s: Suite) -> Array:
    """Numbers with infinite ones, -0 and missing ones."""
    x = s.numbers(12, 4)
    x[3, 1], x[4, 2], x[5, 0], x[6] = np.inf, -np.inf, -0.0, np.nan
    x[7, 2] = x[8, 3] = np.nan
    return x


def tree_regressors(s: Suite) -> None:
    x = table(s)

    def add(name: str, trees: Sequence[Tree], data: Array = x, tensors: bool = False, missing: bool = False, n_targets: int = 1,
            **attributes: Any) -> None:
        parts = by_ids(trees, "target", tensors, missing)
        s.add(f"trees_{name}", "TreeEnsembleRegressor", [data], n_targets=n_targets, **parts, **attributes)

    for how in ("SUM", "AVERAGE", "MIN", "MAX"):
        add(f"{how}", forest(s, 5), aggregate_function=how)
        add(f"{how}_base", forest(s, 3), aggregate_function=how, base_values=[0.75])
        add(f"{how}_sparse", forest(s, 3, 3), n_targets=3, aggregate_function=how)
        add(f"{how}_dense", forest(s, 3, 3, dense=True), n_targets=3, aggregate_function=how, base_values=[0.5, -0.25, 1.0])
        add(f"{how}_one", forest(s, 1, 2), n_targets=2, aggregate_function=how)
    for mode in MODES[:6]:
        add(f"{mode}", forest(s, 3, modes=[mode]))
        add(f"{mode}_missing", forest(s, 3, modes=[mode], missing=True), missing=True)
    add("modes", forest(s, 8, 2, MODES[:6]), n_targets=2)
    add("modes_missing", forest(s, 8, 2, MODES[:6], missing=True), n_targets=2, missing=True)
    for post in POSTS:
        near = [0.5, 0.375, 0.625] if post == "PROBIT" else [0.0, 1.0, -1.0]
        trees = [grow(s, 2, 4, [t], MODES[:1]) for t in range(3)]
        small: list[Tree] = [(1, "BRANCH_LEQ", 0.0, 0, [(t, -0.25)], [(t, 0.125)]) for t in range(3)]
        add(f"{post}", small if post == "PROBIT" else trees, n_targets=3, post_transform=post, base_values=near)
        add(f"{post}_one", small[:1], post_transform=post, base_values=near[:1])
    add("many", forest(s, 40), data=s.numbers(40, 4))
    add("leaf", [[(0, 0.5)]])
    add("doubles", forest(s, 3), data=x.astype(np.float64))
    add("tensors", forest(s, 3, modes=MODES[:6]), data=x.astype(np.float64), tensors=True)
    base = numpy_helper.from_array(np.array([0.1]))
    add("tensors_base", forest(s, 3), data=x.astype(np.float64), tensors=True, base_values_as_tensor=base)
    fine = np.array([[0.1], [0.1 + 1e-12], [0.1 - 1e-12]])  # which are one number of 32 bits
    add("tensors_fine", [(0, "BRANCH_LEQ", 0.1, 0, [(0, 1.0)], [(0, 2.0)])], data=fine, tensors=True)


def tree_classifiers(s: Suite) -> None:
    x = table(s)

    def add(name: str, trees: Sequence[Tree], labels: Sequence[Any], data: Array = x, **attributes: Any) -> None:
        kind = "classlabels_strings" if isinstance(labels[0], str) else "classlabels_int64s"
        parts: Attributes = {**by_ids(trees, "class"), **attributes, kind: list(labels)}
        # ONNX Runtime asks the second class's score alone where both have weights, and has other labels for one class.
        if len(labels) == 1 or len(labels) == len(set(parts["class_ids"])) == 2:
            add_scores(s, f"classes_{name}", "TreeEnsembleClassifier", data, **parts)
        else:
            s.add(f"classes_{name}", "TreeEnsembleClassifier", [data], 2, **parts)

    for sign in ("positive", "mixed"):
        grown: Attributes = {"positive": sign == "positive"}
        for ids in ([0], [1]):
            trees = [grow(s, 3, 4, ids, MODES[:2], **grown) for _ in range(3)]
            name = f"2_{''.join(map(str, ids))}_{sign}"
            add(name, trees, [5, -5])
            add(f"{name}_texts", trees, ["no", "yes"])
            for post in POSTS[1:4]:
                add(f"{name}_{post}", trees, [0, 1], post_transform=post)
        both = forest(s, 3, 2, dense=True, **grown)
        for post in POSTS[:4]:
            add(f"2_dense_{sign}_{post}", both, [0, 1], post_transform=post)
        add(f"3_dense_{sign}", forest(s, 3, 3, dense=True, **grown), [4, 2, 0], base_values=[0.25, -0.5, 0.0])
        add(f"3_sparse_{sign}", forest(s, 3, 3, **grown), ["a", "", "c"])
        add(f"5_sparse_{sign}", forest(s, 9, 5, MODES[:6], **grown), [9, 7, 5, 3, 1], data=s.numbers(9, 4))
        add(f"1_{sign}", forest(s, 3, 1, **grown), [6])
    add("2_base", [grow(s, 3, 4, [0], MODES[:1]) for _ in range(3)], [0, 1], base_values=[0.25])
    for post in POSTS:
        trees = [(t, "BRANCH_LEQ", 0.0, 0, [(t, 0.25)], [(t, 0.625)]) for t in range(3)]
        add(f"3_{post}", trees, [0, 1, 2], post_transform=post)
    add("ints", forest(s, 3, 3, dense=True), [0, 1, 2], data=s.dice.randint(-2, 3, size=(5, 4)))
    add("int32", forest(s, 3, 3, dense=True), [0, 1, 2], data=s.dice.randint(-2, 3, size=(5, 4)).astype(np.int32))
    add("doubles", forest(s, 3, 3, dense=True), [0, 1, 2], data=x.astype(np.float64))


def tree_ensembles(s: Suite) -> None:
    x = table(s)

    def add(name: str, trees: Sequence[Tree], dtype: Any = np.float32, missing: bool = False, n_targets: int = 1,
            **attributes: Any) -> None:
        """ONNX Runtime has integers alone for members, and other numbers than ONNX for SOFTMAX and LOGISTIC."""
        data = (x * 8 if any(mode in name for mode in ("MEMBER", "sparse")) else x).astype(dtype)
        s.add(f"ensemble_{name}", "TreeEnsemble", [data], version=5, **by_place(trees, dtype, missing), n_targets=n_targets, **attributes)

    for i, how in enumerate(("average", "sum", "min", "max")):
        for dtype in (np.float32, np.float64):
            name = f"{how}_{np.dtype(dtype).name}"
            add(name, forest(s, 4), dtype, aggregate_function=i)
            add(f"{name}_sparse", forest(s, 4, 3, MODES), dtype, aggregate_function=i, n_targets=3)
    for mode in MODES:
        add(mode, forest(s, 3, modes=[mode]))
    for mode in MODES[:6]:
        add(f"{mode}_missing", forest(s, 3, modes=[mode], missing=True), missing=True)
    for i, post in ((0, "NONE"), (3, "SOFTMAX_ZERO")):
        add(post, [grow(s, 2, 4, [t], MODES[:1]) for t in range(3)], n_targets=3, post_transform=i)


# ---- Scan ----

def scan(s: Suite) -> None:
    f32 = onnx.TensorProto.FLOAT
    info = helper.make_tensor_value_info

    def add(name: str, nodes: Sequence[onnx.NodeProto], states: Sequence[tuple[str, Array]], scanned: Sequence[tuple[str, Array]],
            results: Sequence[str], opset: int = 16, **attributes: Any) -> None:
        """A body whose inputs are in_* of what is given; results that are no states are laid side by side."""
        given = [*states, *scanned]
        body = helper.make_graph(nodes, "body", [info(f"in_{n}", f32, None) for n, _ in given], [info(r, f32, None) for r in results])
        asked = [f"o{i}" for i in range(len(results))]
        node = helper.make_node("Scan", [n for n, _ in given], asked, body=body, num_scan_inputs=len(scanned), **attributes)
        s.add_graph(f"scan_{name}", [node], given, asked, opset=opset)

    total = [helper.make_node("Add", ["in_sum", "in_x"], ["next"]), helper.make_node("Mul", ["next", "in_x"], ["each"])]
    x, start = s.numbers(4, 3), s.numbers(3)
    add("sum", total, [("sum", start)], [("x", x)], ["next", "each"])
    add("sum_11", total, [("sum", start)], [("x", x)], ["next", "each"], opset=11)
    add("backwards", total, [("sum", start)], [("x", x)], ["next", "each"], scan_input_directions=[1])
    add("laid_backwards", total, [("sum", start)], [("x", x)], ["next", "each"], scan_output_directions=[1])
    add("both_backwards", total, [("sum", start)], [("x", x)], ["next", "each"], scan_input_directions=[1], scan_output_directions=[1])
    add("axis", total, [("sum", s.numbers(4))], [("x", x)], ["next", "each"], scan_input_axes=[1], scan_output_axes=[1])
    cube = s.numbers(2, 3, 4)
    for axes, output in (([-1], [2]), ([1], [-1]), ([0], [1])):
        sizes = [extent for i, extent in enumerate(cube.shape) if i != axes[0] % 3]
        add(f"axes_{axes[0]}_{output[0]}", total, [("sum", s.numbers(*sizes))], [("x", cube)], ["next", "each"], scan_input_axes=axes,
            scan_output_axes=output)
    several = [helper.make_node("Add", ["in_a", "in_x"], ["next_a"]), helper.make_node("Sub", ["in_b", "in_y"], ["next_b"]),
               helper.make_node("Mul", ["next_a", "next_b"], ["product"]), helper.make_node("Max", ["in_x", "in_y"], ["most"])]
    add("several", several, [("a", start), ("b", s.numbers(3))], [("x", x), ("y", s.numbers(3, 4))],
        ["next_a", "next_b", "product", "most"], scan_input_axes=[0, 1], scan_input_directions=[0, 1],
        scan_output_axes=[1, 0], scan_output_directions=[1, 0])
    add("no_states", [helper.make_node("Neg", ["in_x"], ["n"])], [], [("x", x)], ["n"])
    add("states_only", total[:1], [("sum", start)], [("x", x)], ["next"])
    add("through", [helper.make_node("Identity", ["in_sum"], ["next"]), helper.make_node("Identity", ["in_x"], ["each"])],
        [("sum", start)], [("x", x)], ["next", "each"])


# ---- texts ----

def graphs_of_texts(s: Suite) -> None:
    names = numpy_helper.from_array(texts("a", "", "cd", "é", "a b", "longer than the others").reshape(2, 3), "names")
    row = numpy_helper.from_array(texts("x", "yy", "").reshape(1, 3), "row")

    def sizes(name: str, *values: int) -> onnx.TensorProto:
        return numpy_helper.from_array(np.array(values, np.int64), name)

    def add(name: str, *steps: tuple[str, Sequence[str]], **attributes: Any) -> None:
        """Each step is of what the one before gives, "" in its inputs."""
        nodes = []
        for i, (op, inputs) in enumerate(steps):
            last = i + 1 == len(steps)
            own = attributes if last else {}
            domain = DOMAIN if op == "ArrayFeatureExtractor" else ""
            nodes.append(helper.make_node(op, [v or f"t{i}" for v in inputs], ["o0" if last else f"t{i + 1}"], domain=domain, **own))
        used = {v for _, inputs in steps for v in inputs}
        s.add_graph(f"texts_{name}", nodes, [], ["o0"], [c for c in constants if c.name in used])

    constants = [names, row, sizes("flat", -1), sizes("three", 3, 2, 1), sizes("copied", 0, 3, -1), sizes("first", 0), sizes("last", -1),
                 sizes("places", 2, 0)]
    add("identity", ("Identity", ["names"]))
    add("reshape", ("Reshape", ["names", "flat"]))
    add("reshape_3", ("Reshape", ["names", "three"]))
    add("reshape_copied", ("Reshape", ["names", "copied"]))
    add("squeeze", ("Squeeze", ["row"]))
    add("squeeze_axis", ("Squeeze", ["row", "first"]))
    add("unsqueeze", ("Unsqueeze", ["names", "last"]))
    add("flatten", ("Flatten", ["names"]), axis=0)
    add("concat", ("Concat", ["names", "row", "names"]), axis=0)
    add("concat_axis", ("Concat", ["names", "names"]), axis=-1)
    add("pick", ("ArrayFeatureExtractor", ["names", "places"]))
    add("steps", ("Identity", ["names"]), ("Unsqueeze", ["", "first"]), ("Reshape", ["", "flat"]))
    s.add("texts_constant", "Constant", [], domain="", value_string="a text")
    s.add("texts_constants", "Constant", [], domain="", value_strings=["a", "", "long"])
    s.add("texts_constant_tensor", "Constant", [], domain="", value=numpy_helper.from_array(texts("a", "", "c", "d").reshape(2, 2), "v"))
    given = texts("p", "", "q", "rs").reshape(1, 4)
    s.add("texts_given", "Reshape", [given, np.array([2, 2], np.int64)], domain="", fixed=(1,))
    s.add("texts_given_concat", "Concat", [given, given[:, :2]], domain="", axis=1)


def functions(s: Suite) -> None:
    """Functions of a file, which nodes of their names call."""
    x, y = s.numbers(2, 3), s.numbers(2, 3)

    def function(name: str, inputs: Sequence[str], outputs: Sequence[str], nodes: Sequence[onnx.NodeProto], attributes: Sequence[str] = (),
                 defaults: Sequence[onnx.AttributeProto] = (), opset: int = 17) -> onnx.FunctionProto:
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid("local", 1)]
        return helper.make_function("local", name, inputs, outputs, nodes, opsets, attributes, defaults)

    def referring(op: str, inputs: Sequence[str], outputs: Sequence[str], **names: tuple[str, int]) -> onnx.NodeProto:
        node = helper.make_node(op, inputs, outputs)
        for name, (of, kind) in names.items():
            node.attribute.append(onnx.AttributeProto(name=name, ref_attr_name=of, type=kind))
        return node

    def call(op: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> onnx.NodeProto:
        return helper.make_node(op, inputs, outputs, domain="local", **attributes)

    leaky = function("Leaky", ["x"], ["y"], [referring("LeakyRelu", ["x"], ["t"], alpha=("slope", onnx.AttributeProto.FLOAT)),
                                             helper.make_node("Neg", ["t"], ["y"])], ["slope"])
    usual = function("Usual", ["x"], ["y"], [referring("LeakyRelu", ["x"], ["y"], alpha=("slope", onnx.AttributeProto.FLOAT))], [],
                     [helper.make_attribute("slope", 0.5)])
    twice = function("Twice", ["x", "y"], ["sum", "t"], [call("Leaky", ["x"], ["t"], slope=0.25), call("Leaky", ["y"], ["u"], slope=0.125),
                                                         helper.make_node("Add", ["t", "u"], ["sum"])])
    clip = function("Cut", ["x", "low", "high"], ["y"], [helper.make_node("Clip", ["x", "low", "high"], ["y"])])
    old = function("Old", ["x"], ["y"], [helper.make_node("Unsqueeze", ["x"], ["y"], axes=[0])], opset=11)

    def branch(name: str, op: str) -> onnx.GraphProto:
        told = helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, None)
        return helper.make_graph([helper.make_node(op, ["x"], ["t"]), helper.make_node("Add", ["t", "half"], ["z"])], name, [], [told])

    choose = function("Choose", ["x", "which"], ["y"],
                      [helper.make_node("Constant", [], ["half"], value_float=0.5), helper.make_node("If", ["which"], ["y"],
                       then_branch=branch("then", "Neg"), else_branch=branch("else", "Abs"))])
    low, high, yes = (numpy_helper.from_array(np.array(v), n)
                      for v, n in ((np.float32(-0.25), "low"), (np.float32(0.5), "high"), (True, "yes")))
    s.add_graph("function", [call("Leaky", ["x"], ["o"], slope=0.5)], [("x", x)], ["o"], functions=[leaky])
    s.add_graph("function_default", [call("Usual", ["x"], ["t"]), call("Usual", ["t"], ["o"], slope=0.25)], [("x", x)], ["o"],
                functions=[usual])
    s.add_graph("function_nested", [call("Twice", ["x", "y"], ["o", "p"]), call("Twice", ["o", "p"], ["q", "r"])], [("x", x), ("y", y)],
                ["q", "r", "p"], functions=[leaky, twice])
    s.add_graph("function_unused", [call("Twice", ["x", "y"], ["", "o"])], [("x", x), ("y", y)], ["o"], functions=[leaky, twice])
    s.add_graph("function_missing", [call("Cut", ["x", "", "high"], ["t"]), call("Cut", ["t", "low"], ["o"])], [("x", x)], ["o"],
                [low, high], functions=[clip])
    s.add_graph("function_branches", [call("Choose", ["x", "yes"], ["o"])], [("x", x)], ["o"], [yes], functions=[choose])
    s.add_graph("function_older", [call("Old", ["x"], ["o"])], [("x", x)], ["o"], opset=11, functions=[old])


def main() -> None:
    s = Suite(DOMAIN, 3)
    for part in (features, encoders, one_hot, zip_map, linear, support, tree_regressors, tree_classifiers, tree_ensembles, scan,
                 graphs_of_texts, functions):
        part(s)
    write(s, __file__, "ai.onnx.ml, Scan, texts and functions")


if __name__ == "__main__":
    main()
