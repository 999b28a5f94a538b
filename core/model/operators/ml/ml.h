/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators of the domain ai.onnx.ml, of which exporters make pipelines of scikit-learn, and
 * forests of LightGBM and XGBoost.
 */
#ifndef DHOWI_MODEL_OPERATORS_ML_H_
#define DHOWI_MODEL_OPERATORS_ML_H_

#include "model/lower/composite.h"
#include "model/lower/lower.h"

#define DHOWI_ML "ai.onnx.ml"

/* features.c */
dhowi_lower_fn dhowi_lower_ml_scaler, dhowi_lower_ml_normalizer, dhowi_lower_ml_imputer,
    dhowi_lower_ml_binarizer, dhowi_lower_ml_pick_features, dhowi_lower_ml_join_features;
/* labels.c */
dhowi_lower_fn dhowi_lower_ml_label_encoder, dhowi_lower_ml_one_hot, dhowi_lower_ml_zip_map;
enum { DHOWI_ML_KEYS, DHOWI_ML_CATEGORIES }; /* label_encoder, by its attributes */
/* linear.c */
dhowi_lower_fn dhowi_lower_ml_linear_regressor, dhowi_lower_ml_linear_classifier;
/* support.c */
dhowi_lower_fn dhowi_lower_ml_svm_regressor, dhowi_lower_ml_svm_classifier;
/* texts.c */
dhowi_lower_fn dhowi_lower_regex_full_match, dhowi_lower_tf_idf, dhowi_lower_ms_tokenizer;
/* trees.c */
dhowi_lower_fn dhowi_lower_ml_tree_regressor, dhowi_lower_ml_tree_classifier,
    dhowi_lower_ml_tree_ensemble;

/* ---- forests, see forest.c ---- */

/* What makes a forest of a node's attributes, once for all plans. */
extern const dhowi_operator dhowi_ml_forest;

/* Its results, which are the inputs of the node behind its own. */
enum {
    DHOWI_FOREST_NODES,      /* i32[nodes, 2] */
    DHOWI_FOREST_THRESHOLDS, /* f32 or f64 [nodes] */
    DHOWI_FOREST_LEAVES,     /* i32[nodes]: the target of a leaf, or its row of weights */
    DHOWI_FOREST_WEIGHTS,    /* [leaves, columns], or nothing */
    DHOWI_FOREST_FACTS,      /* i64[DHOWI_FOREST_FACT_COUNT] */
    DHOWI_FOREST_RESULTS
};
enum {
    DHOWI_FOREST_TREES,
    DHOWI_FOREST_FEATURES, /* that rows must have */
    DHOWI_FOREST_TARGETS,
    DHOWI_FOREST_COLUMNS,  /* twice the targets where a row may reach no leaf with a weight for one:
                              a second half then tells that it did */
    DHOWI_FOREST_HOW,      /* 0: sums, 1: the least, 2: the largest weights */
    DHOWI_FOREST_ASKS,     /* what all nodes ask, as kernels/trees.k has it */
    DHOWI_FOREST_MEAN,     /* whether sums are divided by the number of trees */
    DHOWI_FOREST_USED,     /* of two classes: bits of those that have weights; one has one target */
    DHOWI_FOREST_POSITIVE, /* no weight is negative */
    DHOWI_FOREST_FACT_COUNT
};

/* ---- scores ---- */

typedef enum dhowi_ml_post {
    DHOWI_POST_NONE,
    DHOWI_POST_SOFTMAX,
    DHOWI_POST_LOGISTIC,
    DHOWI_POST_SOFTMAX_ZERO,
    DHOWI_POST_PROBIT
} dhowi_ml_post;

/* Of the attribute post_transform. */
dhow_status dhowi_ml_post_of(const dhowi_lowering *b, dhowi_ml_post *out);
/* Scores [rows, n], transformed. */
dhow_status dhowi_ml_transform(dhowi_lowering *b, dhowi_ml_post post, int32_t scores, int32_t *out);
/* The scores of two classes by the second one's, [rows, 1]: the other's is its negative, or, where
 * `positive` says that it is a probability, 1 less it. */
dhow_status dhowi_ml_pair(dhowi_lowering *b, dhowi_ml_post post, bool positive, int32_t score,
                          int32_t *out);
/* i64[rows]: the column of the largest score. */
dhow_status dhowi_ml_best(dhowi_lowering *b, int32_t scores, int32_t *out);
/* i64[rows]: 1 where a score [rows, 1] is more than a limit, else 0. */
dhow_status dhowi_ml_exceeds(dhowi_lowering *b, int32_t score, double limit, int32_t *out);

/* ---- class labels ---- */

/* The attributes that name classes, classlabels_...: integers, or texts where there are such. */
typedef struct dhowi_ml_labels {
    const int64_t *numbers;
    const dhowi_slice *texts;
    uint32_t count;
} dhowi_ml_labels;
dhow_status dhowi_ml_labels_of(dhowi_lowering *b, dhowi_ml_labels *out);
/* The labels of known or numbered classes, i64 of any shape. Texts are made on the host: these
 * classes must be known. */
dhow_status dhowi_ml_name(dhowi_lowering *b, const dhowi_ml_labels *labels, int32_t classes,
                          int32_t *out);

/* ---- results that the host makes of what a device computes ---- */

/* Lowers the node in two steps, between which the plan may stop: `compute` gives its results, of
 * which `finish` makes others once their values are known. */
dhow_status dhowi_ml_in_two(dhowi_lowering *b, dhowi_lower_fn *compute, dhowi_lower_fn *finish);
/* The second step of classifiers: the classes in the first result become their labels. */
dhowi_lower_fn dhowi_ml_name_classes;

/* ---- attributes ---- */

/* f32, or f64 where the node's input is; integers become f32. */
dhow_status dhowi_ml_numbers_of(dhowi_lowering *b, int32_t x, int32_t *out);
/* A list of floats as a tensor of a shape and dtype; its length is known to be right. */
dhow_status dhowi_ml_constant(dhowi_lowering *b, dhow_dtype dtype, int32_t rank,
                              const int64_t *shape, const float *values, int32_t *out);
/* A list of floats, NULL when it is missing. */
const float *dhowi_ml_floats(const dhowi_lowering *b, const char *name, uint32_t *count);
/* x as rows: [n] is [1, n], as in ONNX Runtime. */
dhow_status dhowi_ml_rows(dhowi_lowering *b, int32_t x, int32_t *out);

#endif /* DHOWI_MODEL_OPERATORS_ML_H_ */
