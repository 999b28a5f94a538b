/* SPDX-License-Identifier: Apache-2.0
 *
 * SVMRegressor and SVMClassifier, as libsvm has them: sums of a kernel function of x and support
 * vectors. Chang and Lin, LIBSVM: a library for support vector machines, 2011.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "model/lower/products/products.h"
#include "model/operators/ml/ml.h"

typedef enum kernel_type { LINEAR, POLY, RBF, SIGMOID } kernel_type;
static const char *const k_kernels[] = {"LINEAR", "POLY", "RBF", "SIGMOID"};

typedef struct machine {
    kernel_type kernel;
    float params[3];                     /* gamma, coef0, degree */
    const float *vectors, *coefficients; /* [count][features], [rows][count] */
    const float *rho;
    uint32_t vector_count, coefficient_count, rho_count;
    int64_t count; /* support vectors; 0: coefficients are weights of the features */
} machine;

static dhow_status read_machine(const dhowi_lowering *b, machine *m) {
    uint32_t count;
    const float *params = dhowi_ml_floats(b, "kernel_params", &count);
    int kernel = -1;
    for (int i = 0; i < 4; i++)
        if (dhowi_attr_is(b, "kernel_type", k_kernels[i], "LINEAR")) kernel = i;
    if (kernel < 0) return dhowi_refuse_text(b, "kernel_type");
    m->kernel = (kernel_type)kernel;
    if (count != 0 && count != 3) DHOWI_REFUSE("kernel_params has %u numbers, not 3", count);
    if (count == 3) memcpy(m->params, params, sizeof m->params);
    m->vectors = dhowi_ml_floats(b, "support_vectors", &m->vector_count);
    m->coefficients = dhowi_ml_floats(b, "coefficients", &m->coefficient_count);
    m->rho = dhowi_ml_floats(b, "rho", &m->rho_count);
    if (m->rho_count == 0) DHOWI_REFUSE("it has no rho");
    return DHOW_OK;
}

/* ---- the kernel function of each row and support vector: [rows, count] ---- */

/* Distances are differences of large numbers: less so around the vectors' mean. */
static dhow_status centre(dhowi_lowering *b, const machine *m, int64_t features, int32_t *x,
                          float *vectors) {
    int32_t mean_item;
    float *means = dhowi_alloc_array((size_t)features + 1, sizeof *means);
    if (means == NULL) return dhowi_fail_memory("plan");
    for (int64_t k = 0; k < features; k++) {
        double sum = 0;
        for (int64_t i = 0; i < m->count; i++) sum += (double)vectors[i * features + k];
        means[k] = (float)(sum / (double)m->count);
        for (int64_t i = 0; i < m->count; i++) vectors[i * features + k] -= means[k];
    }
    dhow_status status =
        dhowi_ml_constant(b, dhowi_desc_at(b, *x)->dtype, 1, &features, means, &mean_item);
    dhowi_free(means);
    if (status != DHOW_OK) return status;
    return dhowi_map_two(b, DHOWI_MAP_SUB, *x, mean_item, x);
}

/* |x|^2 + |v|^2 - 2 x v */
static dhow_status distances(dhowi_lowering *b, const machine *m, const float *vectors, int32_t x,
                             int32_t product, int32_t *out) {
    const int64_t features = dhowi_desc_at(b, x)->shape[1];
    const bool along[] = {false, true};
    int32_t own, theirs;
    float *squares = dhowi_alloc_array((size_t)m->count + 1, sizeof *squares);
    if (squares == NULL) return dhowi_fail_memory("plan");
    for (int64_t i = 0; i < m->count; i++) {
        double sum = 0;
        for (int64_t k = 0; k < features; k++)
            sum += (double)vectors[i * features + k] * (double)vectors[i * features + k];
        squares[i] = (float)sum;
    }
    dhow_status status =
        dhowi_ml_constant(b, dhowi_desc_at(b, x)->dtype, 1, &m->count, squares, &theirs);
    dhowi_free(squares);
    if (status != DHOW_OK) return status;
    DHOWI_TRY(dhowi_reduce(b, DHOWI_SUM_SQUARE, x, along, &own));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_MUL, product, -2, out));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, *out, own, out));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, *out, theirs, out));
    return dhowi_map_one(b, DHOWI_MAP_RELU, 0, 0, *out, out);
}

static dhow_status apply(dhowi_lowering *b, const machine *m, float *vectors, int32_t x,
                         int32_t *out) {
    static const int32_t swapped[] = {1, 0};
    const int64_t shape[] = {m->count, dhowi_desc_at(b, x)->shape[1]};
    const double gamma = (double)m->params[0], coef0 = (double)m->params[1];
    int32_t weight;
    if (m->kernel == RBF) DHOWI_TRY(centre(b, m, shape[1], &x, vectors));
    DHOWI_TRY(dhowi_ml_constant(b, dhowi_desc_at(b, x)->dtype, 2, shape, vectors, &weight));
    DHOWI_TRY(dhowi_permute(b, weight, swapped, &weight));
    DHOWI_TRY(dhowi_product(b, x, weight, -1, out));
    if (m->kernel == LINEAR) return DHOW_OK;
    if (m->kernel == RBF) {
        DHOWI_TRY(distances(b, m, vectors, x, *out, out));
        DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_MUL, *out, -gamma, out));
        return dhowi_map_one(b, DHOWI_MAP_EXP, 0, 0, *out, out);
    }
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_LINEAR, gamma, coef0, *out, out));
    if (m->kernel == SIGMOID) return dhowi_map_one(b, DHOWI_MAP_TANH, 0, 0, *out, out);
    return dhowi_map_number(b, DHOWI_MAP_POW, *out, (double)m->params[2], out);
}

static dhow_status kernel_of(dhowi_lowering *b, const machine *m, int32_t x, int32_t *out) {
    const int64_t features = dhowi_desc_at(b, x)->shape[1];
    int64_t count;
    if (!dhowi_mul_i64(m->count, features, &count) || count != m->vector_count)
        DHOWI_REFUSE("support_vectors has %u numbers for %" PRId64 " vectors of %" PRId64
                     " features",
                     m->vector_count, m->count, features);
    float *vectors = dhowi_alloc_array((size_t)count + 1, sizeof *vectors);
    if (vectors == NULL) return dhowi_fail_memory("plan");
    if (count > 0) memcpy(vectors, m->vectors, (size_t)count * sizeof *vectors);
    const dhow_status status = apply(b, m, vectors, x, out);
    dhowi_free(vectors);
    return status;
}

static dhow_status rows_of(dhowi_lowering *b, int32_t *x) {
    DHOWI_TRY(dhowi_ml_numbers_of(b, b->in[0], x));
    return dhowi_ml_rows(b, *x, x);
}

/* ---- SVMRegressor ---- */

dhow_status dhowi_lower_ml_svm_regressor(dhowi_lowering *b) {
    machine m = {0};
    int32_t x, weight, bias, more;
    bool one_class;
    dhowi_ml_post post;
    const int64_t one = 1;
    DHOWI_TRY(read_machine(b, &m));
    DHOWI_TRY(dhowi_ml_post_of(b, &post));
    DHOWI_TRY(dhowi_attr_flag(b, "one_class", false, &one_class));
    m.count = dhowi_attr_int(b, "n_supports", 0);
    DHOWI_TRY(rows_of(b, &x));
    if (m.count > 0) DHOWI_TRY(kernel_of(b, &m, x, &x));
    const dhowi_tensor_desc own = *dhowi_desc_at(b, x);
    if (own.shape[1] != m.coefficient_count)
        DHOWI_REFUSE("coefficients has %u numbers for %" PRId64, m.coefficient_count, own.shape[1]);
    const int64_t shape[] = {own.shape[1], 1};
    DHOWI_TRY(dhowi_ml_constant(b, own.dtype, 2, shape, m.coefficients, &weight));
    DHOWI_TRY(dhowi_ml_constant(b, own.dtype, 1, &one, m.rho, &bias));
    DHOWI_TRY(dhowi_product(b, x, weight, bias, &b->out[0]));
    if (one_class) { /* 1 within, -1 without */
        DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_GT, b->out[0], 0, &more));
        DHOWI_TRY(dhowi_cast_to(b, more, own.dtype, &more));
        DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_LINEAR, 2, -1, more, &b->out[0]));
    } else if (post == DHOWI_POST_PROBIT) {
        DHOWI_TRY(dhowi_ml_transform(b, post, b->out[0], &b->out[0]));
    }
    return dhowi_cast_to(b, b->out[0], DHOW_F32, &b->out[0]);
}

/* ---- SVMClassifier: a machine for each pair of classes ---- */

typedef struct pairs {
    const int64_t *each; /* vectors of a class */
    int64_t classes, count;
} pairs;

/* What a pair's machine weighs the vectors by: [vectors, pairs]. */
static void fill_pairs(const machine *m, const pairs *p, float *to) {
    int64_t pair = 0;
    memset(to, 0, (size_t)(m->count * p->count) * sizeof *to);
    for (int64_t i = 0, begin_i = 0; i < p->classes; begin_i += p->each[i], i++) {
        for (int64_t j = i + 1, begin_j = begin_i + p->each[i]; j < p->classes;
             begin_j += p->each[j], j++, pair++) {
            for (int64_t v = begin_i; v < begin_i + p->each[i]; v++)
                to[v * p->count + pair] = m->coefficients[(j - 1) * m->count + v];
            for (int64_t v = begin_j; v < begin_j + p->each[j]; v++)
                to[v * p->count + pair] = m->coefficients[i * m->count + v];
        }
    }
}

static dhow_status decide_pairs(dhowi_lowering *b, const machine *m, const pairs *p, int32_t kernel,
                                int32_t *out) {
    const int64_t shape[] = {m->count, p->count};
    const dhow_dtype dtype = dhowi_desc_at(b, kernel)->dtype;
    int32_t weight, bias;
    float *weights = dhowi_alloc_array((size_t)(m->count * p->count) + 1, sizeof *weights);
    if (weights == NULL) return dhowi_fail_memory("plan");
    fill_pairs(m, p, weights);
    dhow_status status = dhowi_ml_constant(b, dtype, 2, shape, weights, &weight);
    dhowi_free(weights);
    if (status != DHOW_OK) return status;
    DHOWI_TRY(dhowi_ml_constant(b, dtype, 1, &p->count, m->rho, &bias));
    return dhowi_product(b, kernel, weight, bias, out);
}

/* i64[rows]: the class that most pairs are for, the first of those with as many. */
static dhow_status vote(dhowi_lowering *b, const pairs *p, int32_t scores, int32_t *out) {
    const int64_t shape[] = {p->count, p->classes};
    int32_t wins, weight, bias;
    float *votes = dhowi_alloc_array((size_t)((p->count + 1) * p->classes), sizeof *votes);
    if (votes == NULL) return dhowi_fail_memory("plan");
    float *first = votes + p->count * p->classes; /* with no pair won */
    memset(votes, 0, (size_t)((p->count + 1) * p->classes) * sizeof *votes);
    for (int64_t i = 0, pair = 0; i < p->classes; i++) {
        for (int64_t j = i + 1; j < p->classes; j++, pair++) {
            votes[pair * p->classes + i] = 1;
            votes[pair * p->classes + j] = -1;
            first[j] += 1;
        }
    }
    dhow_status status = dhowi_constant(b, DHOW_F32, 2, shape, votes, &weight);
    if (status == DHOW_OK) status = dhowi_constant(b, DHOW_F32, 1, &p->classes, first, &bias);
    dhowi_free(votes);
    if (status != DHOW_OK) return status;
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_GT, scores, 0, &wins));
    DHOWI_TRY(dhowi_cast_to(b, wins, DHOW_F32, &wins));
    DHOWI_TRY(dhowi_product(b, wins, weight, bias, &wins));
    return dhowi_ml_best(b, wins, out);
}

/* ---- probabilities: Wu, Lin and Weng, Probability estimates for multi-class classification by
 * pairwise coupling, 2004, as libsvm iterates ---- */

static void couple(int64_t k, const double *r, double *q, double *qp, double *p) {
    const double eps = 0.005 / (double)k;
    const int64_t most = DHOWI_MAX(k, (int64_t)100);
    for (int64_t t = 0; t < k; t++) {
        p[t] = 1 / (double)k;
        q[t * k + t] = 0;
        for (int64_t j = 0; j < k; j++) {
            if (j == t) continue;
            q[t * k + t] += r[j * k + t] * r[j * k + t];
            q[t * k + j] = -r[j * k + t] * r[t * k + j];
        }
    }
    for (int64_t iteration = 0; iteration < most; iteration++) {
        double pqp = 0, worst = 0;
        for (int64_t t = 0; t < k; t++) {
            qp[t] = 0;
            for (int64_t j = 0; j < k; j++) qp[t] += q[t * k + j] * p[j];
            pqp += p[t] * qp[t];
        }
        for (int64_t t = 0; t < k; t++) worst = fmax(worst, fabs(qp[t] - pqp));
        if (worst < eps) return;
        for (int64_t t = 0; t < k; t++) {
            const double diff = (pqp - qp[t]) / q[t * k + t];
            p[t] += diff;
            pqp = (pqp + diff * (diff * q[t * k + t] + 2 * qp[t])) / (1 + diff) / (1 + diff);
            for (int64_t j = 0; j < k; j++) {
                qp[j] = (qp[j] + diff * q[t * k + j]) / (1 + diff);
                p[j] /= 1 + diff;
            }
        }
    }
}

/* Of the pairs' probabilities in `of`, [rows][pairs], into [rows][classes]. */
static dhow_status couple_rows(const pairs *p, int64_t rows, const double *of, float *to) {
    const int64_t k = p->classes;
    double *room = dhowi_alloc_array((size_t)(2 * k * k + 2 * k), sizeof *room);
    if (room == NULL) return dhowi_fail_memory("plan");
    double *r = room, *q = r + k * k, *qp = q + k * k, *estimate = qp + k;
    memset(room, 0, (size_t)(2 * k * k + 2 * k) * sizeof *room);
    for (int64_t row = 0; row < rows; row++) {
        const double *own = of + row * p->count;
        for (int64_t i = 0; i < k; i++) {
            for (int64_t j = i + 1; j < k; j++, own++) {
                r[i * k + j] = *own;
                r[j * k + i] = 1 - *own;
            }
        }
        couple(k, r, q, qp, estimate);
        for (int64_t i = 0; i < k; i++) to[row * k + i] = (float)estimate[i];
    }
    dhowi_free(room);
    return DHOW_OK;
}

/* On the host. */
static dhow_status couple_pairs(dhowi_lowering *b, int64_t classes, int32_t of, int32_t *out) {
    const pairs own = {NULL, classes, classes * (classes - 1) / 2}, *p = &own;
    const int64_t rows = dhowi_desc_at(b, of)->shape[0], shape[] = {rows, p->classes};
    uint32_t got;
    DHOWI_TRY(dhowi_host_room(b, rows * p->count, sizeof(double)));
    double *values = dhowi_alloc_array((size_t)(rows * p->count) + 1, sizeof *values);
    float *made = dhowi_alloc_array((size_t)(rows * p->classes) + 1, sizeof *made);
    dhow_status status = values != NULL && made != NULL ? DHOW_OK : dhowi_fail_memory("plan");
    if (status == DHOW_OK) status = dhowi_floats(b, of, values, (uint32_t)(rows * p->count), &got);
    if (status == DHOW_OK) status = couple_rows(p, rows, values, made);
    if (status == DHOW_OK) status = dhowi_constant(b, DHOW_F32, 2, shape, made, out);
    dhowi_free(made);
    dhowi_free(values);
    return status;
}

/* 1 - 1 / (1 + exp(a score + b)) of each pair is how probable its first class is. */
static dhow_status probabilities(dhowi_lowering *b, const pairs *p, const float *prob_a,
                                 const float *prob_b, int32_t scores, int32_t *out) {
    const dhow_dtype dtype = dhowi_desc_at(b, scores)->dtype;
    int32_t scale, shift;
    DHOWI_TRY(dhowi_ml_constant(b, dtype, 1, &p->count, prob_a, &scale));
    DHOWI_TRY(dhowi_ml_constant(b, dtype, 1, &p->count, prob_b, &shift));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, scores, scale, out));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, *out, shift, out));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_NEG, 0, 0, *out, out));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_SIGMOID, 0, 0, *out, out));
    return dhowi_map_one(b, DHOWI_MAP_CLIP, 1e-7, 1 - 1e-7, *out, out);
}

static dhow_status check_pairs(const machine *m, const pairs *p) {
    if (m->coefficient_count != (p->classes - 1) * m->count || m->rho_count != p->count)
        DHOWI_REFUSE("coefficients has %u numbers and rho %u, for %" PRId64 " classes of %" PRId64
                     " vectors",
                     m->coefficient_count, m->rho_count, p->classes, m->count);
    return DHOW_OK;
}

static dhow_status classify_pairs(dhowi_lowering *b, machine *m, const pairs *p, dhowi_ml_post post,
                                  int32_t *classes) {
    uint32_t as, bs;
    const float *prob_a = dhowi_ml_floats(b, "prob_a", &as),
                *prob_b = dhowi_ml_floats(b, "prob_b", &bs);
    int32_t x, scores;
    DHOWI_TRY(check_pairs(m, p));
    if (as != bs || (as != 0 && as != p->count))
        DHOWI_REFUSE("prob_a has %u numbers, prob_b %u, for %" PRId64 " pairs", as, bs, p->count);
    DHOWI_TRY(rows_of(b, &x));
    DHOWI_TRY(kernel_of(b, m, x, &x));
    DHOWI_TRY(decide_pairs(b, m, p, x, &scores));
    DHOWI_TRY(vote(b, p, scores, classes));
    if (as > 0) {
        DHOWI_TRY(probabilities(b, p, prob_a, prob_b, scores, &scores));
        b->out[1] = scores; /* the rest is up to the host */
        return DHOW_OK;
    }
    if (p->count > 1) return dhowi_ml_transform(b, post, scores, &b->out[1]);
    return dhowi_ml_pair(b, post, post != DHOWI_POST_NONE, scores, &b->out[1]);
}

/* Without support vectors: weights of the features for each class. */
static dhow_status classify_linear(dhowi_lowering *b, const machine *m, int64_t count,
                                   dhowi_ml_post post, int32_t *classes) {
    static const int32_t swapped[] = {1, 0};
    int32_t x, weight, scores;
    DHOWI_TRY(rows_of(b, &x));
    const dhowi_tensor_desc own = *dhowi_desc_at(b, x);
    const int64_t shape[] = {count, own.shape[1]};
    if (own.shape[1] > UINT32_MAX || count * own.shape[1] != m->coefficient_count)
        DHOWI_REFUSE("coefficients has %u numbers for %" PRId64 " classes of %" PRId64 " features",
                     m->coefficient_count, count, own.shape[1]);
    DHOWI_TRY(dhowi_ml_constant(b, own.dtype, 2, shape, m->coefficients, &weight));
    DHOWI_TRY(dhowi_permute(b, weight, swapped, &weight));
    DHOWI_TRY(dhowi_product(b, x, weight, -1, &scores));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_ADD, scores, (double)m->rho[0], &scores));
    DHOWI_TRY(dhowi_ml_best(b, scores, classes));
    return dhowi_ml_transform(b, post, scores, &b->out[1]);
}

static dhow_status compute_classes(dhowi_lowering *b) {
    machine m = {0};
    dhowi_ml_labels labels;
    dhowi_ml_post post;
    uint32_t count;
    int32_t classes;
    DHOWI_TRY(read_machine(b, &m));
    DHOWI_TRY(dhowi_ml_post_of(b, &post));
    DHOWI_TRY(dhowi_ml_labels_of(b, &labels));
    const int64_t *each = dhowi_attr_ints(b, "vectors_per_class", &count);
    const pairs p = {each, labels.count, (int64_t)labels.count * (labels.count - 1) / 2};
    for (uint32_t i = 0; i < count; i++) {
        if (each[i] < 0 || each[i] > INT32_MAX)
            DHOWI_REFUSE("vectors_per_class holds %" PRId64, each[i]);
        m.count += each[i];
    }
    if (count != 0 && count != labels.count)
        DHOWI_REFUSE("vectors_per_class has %u numbers for %u classes", count, labels.count);
    if (labels.count < 2 || labels.count > 1 << 12)
        DHOWI_REFUSE("it has %u class labels, not 2 to 4096", labels.count);
    if (m.count > 0)
        DHOWI_TRY(classify_pairs(b, &m, &p, post, &classes));
    else
        DHOWI_TRY(classify_linear(b, &m, labels.count, post, &classes));
    b->out[0] = classes;
    return dhowi_cast_to(b, b->out[1], DHOW_F32, &b->out[1]);
}

static dhow_status finish_classes(dhowi_lowering *b) {
    dhowi_ml_labels labels;
    dhowi_ml_post post;
    uint32_t estimates, vectors;
    (void)dhowi_ml_floats(b, "prob_a", &estimates);
    (void)dhowi_attr_ints(b, "vectors_per_class", &vectors);
    DHOWI_TRY(dhowi_ml_labels_of(b, &labels));
    DHOWI_TRY(dhowi_ml_post_of(b, &post));
    if (estimates > 0 && vectors > 0 && b->out_count > 1) {
        DHOWI_TRY(couple_pairs(b, labels.count, b->out[1], &b->out[1]));
        DHOWI_TRY(dhowi_ml_transform(b, post, b->out[1], &b->out[1]));
    }
    return dhowi_ml_name_classes(b);
}

dhow_status dhowi_lower_ml_svm_classifier(dhowi_lowering *b) {
    return dhowi_ml_in_two(b, compute_classes, finish_classes);
}
