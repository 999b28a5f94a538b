/* SPDX-License-Identifier: Apache-2.0
 *
 * Part of dhow/dhow.hpp: models, and what they take and give besides tensors.
 */
#ifndef DHOW_CPP_MODEL_HPP_
#define DHOW_CPP_MODEL_HPP_

#include "dhow/cpp/ops.hpp"

namespace dhow {

/* ---- texts and sequences ---- */

/** What a model takes and gives where that may be more than a tensor. */
class datum : public unique_handle<dhow_datum, dhow_datum_release> {
   public:
    using unique_handle::unique_handle;
    datum(const tensor &t)
        : unique_handle(made<dhow_datum>(
              [&](dhow_datum **out) { return dhow_datum_of_tensor(t.get(), out); })) {}
    static datum texts(const dhow::shape &s, const std::vector<std::string> &all) {
        if (static_cast<int64_t>(all.size()) != s.count())
            throw error(DHOW_INVALID_ARGUMENT, "dhow::datum::texts: " + std::to_string(all.size()) +
                                                   " texts for a shape of " +
                                                   std::to_string(s.count()));
        std::vector<const char *> pointers;
        for (const std::string &text : all) pointers.push_back(text.c_str());
        return datum(made<dhow_datum>([&](dhow_datum **out) {
            return dhow_datum_of_texts(s.rank(), s.data(), pointers.data(), out);
        }));
    }
    static datum sequence(const std::vector<datum> &items) {
        const auto all = handles(items);
        return datum(made<dhow_datum>([&](dhow_datum **out) {
            return dhow_datum_of_sequence(all.data(), static_cast<uint32_t>(all.size()), out);
        }));
    }
    /** An optional value that is not there. */
    static datum nothing() { return datum(made<dhow_datum>(dhow_datum_of_nothing)); }
    dhow_datum_info info() const {
        return filled<dhow_datum_info>(
            [&](dhow_datum_info *out) { return dhow_datum_get_info(get(), out); });
    }
    dhow::tensor tensor() const {
        dhow_tensor *found =
            made<dhow_tensor>([&](dhow_tensor **out) { return dhow_datum_tensor(get(), out); });
        check(dhow_tensor_retain(found));
        return dhow::tensor(found);
    }
    std::vector<std::string> texts() const {
        std::vector<std::string> all;
        const int64_t count = info().count;
        for (int64_t i = 0; i < count; i++) {
            const char *text = nullptr;
            check(dhow_datum_text(get(), i, &text));
            all.emplace_back(text);
        }
        return all;
    }
    /** The tensors of a sequence of them. */
    std::vector<dhow::tensor> tensors() const {
        std::vector<dhow::tensor> all;
        const int64_t count = info().count;
        for (uint32_t i = 0; i < count; i++) {
            datum item(
                made<dhow_datum>([&](dhow_datum **out) { return dhow_datum_item(get(), i, out); }));
            dhow_tensor *found = nullptr;
            const dhow_status status = dhow_datum_tensor(item.get(), &found);
            (void)item.release(); /* borrowed from the sequence */
            check(status);
            check(dhow_tensor_retain(found));
            all.emplace_back(found);
        }
        return all;
    }
};

/* ---- models ---- */

/** A value inside a model that is being built. */
using model_value = dhow_model_value;
struct model_topk_result {
    model_value values, indices;
};

class model : public unique_handle<dhow_model, dhow_model_release> {
   public:
    using unique_handle::unique_handle;
    /** An empty one, to be built by the functions below. */
    explicit model(const context &c)
        : unique_handle(
              made<dhow_model>([&](dhow_model **out) { return dhow_model_create(c.get(), out); })) {
    }
    /** From an ONNX file. */
    model(const context &c, const std::string &path)
        : unique_handle(made<dhow_model>(
              [&](dhow_model **out) { return dhow_model_load(c.get(), path.c_str(), out); })) {}
    /** The same from memory, which lives and stays as it is as long as the model. */
    model(const context &c, const void *data, uint64_t bytes)
        : unique_handle(made<dhow_model>([&](dhow_model **out) {
              return dhow_model_load_memory(c.get(), data, bytes, out);
          })) {}

    /* ---- building ---- */

    model_value input(const std::string &name, const dhow::shape &s, dhow_dtype dtype = DHOW_F32) {
        return add(dhow_model_input, name.c_str(), dtype, s.rank(), s.data());
    }
    model &output(const std::string &name, model_value value) {
        check(dhow_model_output(get(), name.c_str(), value));
        return *this;
    }
    model_value parameter(const std::string &name, const dhow::shape &s,
                          dhow_dtype dtype = DHOW_F32) {
        return add(dhow_model_parameter, name.c_str(), dtype, s.rank(), s.data());
    }
    model_value linear(const std::string &name, model_value x, int64_t in, int64_t out,
                       bool bias = true) {
        return add(dhow_model_linear, name.c_str(), x, in, out, bias);
    }
    model_value conv2d(const std::string &name, model_value x, int64_t in, int64_t out,
                       const window &w, bool bias = true) {
        return add(dhow_model_conv2d, name.c_str(), x, in, out, w.get(), bias);
    }
    model_value layernorm(const std::string &name, model_value x, int64_t features,
                          float eps = 1e-5f) {
        return add(dhow_model_layernorm, name.c_str(), x, features, eps);
    }
    model_value batchnorm(const std::string &name, model_value x, int64_t features,
                          float eps = 1e-5f) {
        return add(dhow_model_batchnorm, name.c_str(), x, features, eps);
    }
    model_value embedding(const std::string &name, model_value index, int64_t count,
                          int64_t features, dhow_dtype dtype = DHOW_F32) {
        return add(dhow_model_embedding, name.c_str(), index, count, features, dtype);
    }
    /** A mask of -1 is none. */
    model_value multihead_attention(const std::string &name, model_value query, model_value key,
                                    model_value value, int64_t features, int32_t heads,
                                    model_value mask = -1, bool bias = true) {
        return add(dhow_model_multihead_attention, name.c_str(), query, key, value, mask, features,
                   heads, bias);
    }
    model_value lstm(const std::string &name, model_value x, int64_t in, int64_t hidden,
                     int32_t layers = 1, bool bidirectional = false, bool bias = true) {
        return add(dhow_model_lstm, name.c_str(), x, in, hidden, layers, bidirectional, bias);
    }
    /** Layers one after the other, named by their place. */
    model_value sequential(const std::string &name, model_value x,
                           const std::vector<dhow_layer> &layers) {
        return add(dhow_model_sequential, name.c_str(), x, layers.data(),
                   static_cast<uint32_t>(layers.size()));
    }
    /** Names of what is built while it lives begin with "<name>.". */
    class scope {
       public:
        scope(model &m, const std::string &name) : model_(m.get()) {
            check(dhow_model_begin_scope(model_, name.c_str()));
        }
        scope(const scope &) = delete;
        scope &operator=(const scope &) = delete;
        ~scope() {
            if (dhow_model_end_scope(model_) != DHOW_OK) return;
        }

       private:
        dhow_model *model_;
    };

#define DHOW_HPP_UNARY_(name, ...) \
    model_value name(model_value x) { return add(dhow_model_##name, x); }
    DHOW_UNARY_MAP(DHOW_HPP_UNARY_)
    DHOW_FUNCTION_MAP(DHOW_HPP_UNARY_)
#undef DHOW_HPP_UNARY_
#define DHOW_HPP_BINARY_(name, ...) \
    model_value name(model_value a, model_value b) { return add(dhow_model_##name, a, b); }
    DHOW_BINARY_MAP(DHOW_HPP_BINARY_)
    DHOW_FURTHER_BINARY_MAP(DHOW_HPP_BINARY_)
    DHOW_COMPARE_MAP(DHOW_HPP_BINARY_)
    DHOW_HPP_BINARY_(matmul, "a b")
#undef DHOW_HPP_BINARY_
#define DHOW_HPP_SCALAR_(name, ...)                         \
    model_value name##_scalar(model_value x, scalar s) {    \
        return add(dhow_model_##name##_scalar, x, s.get()); \
    }
    DHOW_SCALAR_MAP(DHOW_HPP_SCALAR_)
#undef DHOW_HPP_SCALAR_
#define DHOW_HPP_ALONG_(name) \
    model_value name(model_value x, int32_t dim) { return add(dhow_model_##name, x, dim); }
    DHOW_HPP_ALONG_(softmax)
    DHOW_HPP_ALONG_(log_softmax)
    DHOW_HPP_ALONG_(argmax)
    DHOW_HPP_ALONG_(argmin)
    DHOW_HPP_ALONG_(cumsum)
    DHOW_HPP_ALONG_(flatten)
    DHOW_HPP_ALONG_(unsqueeze)
#undef DHOW_HPP_ALONG_
    model_value maxpool2d(model_value x, const window &w) {
        return add(dhow_model_maxpool2d, x, w.get());
    }
    model_value avgpool2d(model_value x, const window &w) {
        return add(dhow_model_avgpool2d, x, w.get());
    }
    model_value reshape(model_value x, const dhow::shape &s) {
        return add(dhow_model_reshape, x, s.rank(), s.data());
    }
    model_value transpose(model_value x, int32_t a, int32_t b) {
        return add(dhow_model_transpose, x, a, b);
    }
    model_value cat(const std::vector<model_value> &values, int32_t dim) {
        return add(dhow_model_cat, values.data(), static_cast<uint32_t>(values.size()), dim);
    }
    model_value where(model_value condition, model_value a, model_value b) {
        return add(dhow_model_where, condition, a, b);
    }
    model_value permute(model_value x, const dims &order) {
        return add(dhow_model_permute, x, order.data(), static_cast<uint32_t>(order.size()));
    }
    model_value squeeze(model_value x, int32_t dim = DHOW_ALL_DIMS) {
        return add(dhow_model_squeeze, x, dim);
    }
    /** -1 keeps an extent. */
    model_value expand(model_value x, const dhow::shape &s) {
        return add(dhow_model_expand, x, s.rank(), s.data());
    }
    model_value slice(model_value x, int32_t dim, int64_t start, int64_t stop, int64_t step = 1) {
        return add(dhow_model_slice, x, dim, start, stop, step);
    }
    model_value narrow(model_value x, int32_t dim, int64_t start, int64_t length) {
        return add(dhow_model_narrow, x, dim, start, length);
    }
    model_value select(model_value x, int32_t dim, int64_t index) {
        return add(dhow_model_select, x, dim, index);
    }
    model_value stack(const std::vector<model_value> &values, int32_t dim = 0) {
        return add(dhow_model_stack, values.data(), static_cast<uint32_t>(values.size()), dim);
    }
    /** Pairs of pads from the last dimension on. */
    model_value pad(model_value x, const std::vector<int64_t> &pads,
                    dhow_pad_mode mode = DHOW_PAD_CONSTANT, double value = 0) {
        return add(dhow_model_pad, x, pads.data(), static_cast<uint32_t>(pads.size()), mode, value);
    }
    model_value gather(model_value x, model_value index) {
        return add(dhow_model_gather, x, index);
    }
    model_value index_select(model_value x, int32_t dim, model_value index) {
        return add(dhow_model_index_select, x, dim, index);
    }
    model_value take_along_dim(model_value x, model_value index, int32_t dim) {
        return add(dhow_model_take_along_dim, x, index, dim);
    }
    model_value scatter(model_value x, int32_t dim, model_value index, model_value source,
                        dhow_scatter_mode reduce = DHOW_SCATTER_REPLACE) {
        return add(dhow_model_scatter, x, dim, index, source, reduce);
    }
    model_topk_result topk(model_value x, int64_t k, int32_t dim = -1, bool largest = true) {
        model_topk_result y{-1, -1};
        check(dhow_model_topk(get(), x, k, dim, largest, &y.values, &y.indices));
        return y;
    }
    model_topk_result sort(model_value x, int32_t dim = -1, bool descending = false) {
        model_topk_result y{-1, -1};
        check(dhow_model_sort(get(), x, dim, descending, &y.values, &y.indices));
        return y;
    }
#define DHOW_HPP_CONV_(name)                                                           \
    model_value name(const std::string &layer, model_value x, int64_t in, int64_t out, \
                     const conv_options &options, bool bias = true) {                  \
        return add(dhow_model_##name, layer.c_str(), x, in, out, options.get(), bias); \
    }
    DHOW_HPP_CONV_(conv1d)
    DHOW_HPP_CONV_(conv3d)
    DHOW_HPP_CONV_(conv_transpose1d)
    DHOW_HPP_CONV_(conv_transpose2d)
    DHOW_HPP_CONV_(conv_transpose3d)
#undef DHOW_HPP_CONV_
    model_value groupnorm(const std::string &name, model_value x, int64_t groups, int64_t channels,
                          float eps = 1e-5f) {
        return add(dhow_model_groupnorm, name.c_str(), x, groups, channels, eps);
    }
    model_value rmsnorm(const std::string &name, model_value x, int64_t features,
                        float eps = 1e-6f) {
        return add(dhow_model_rmsnorm, name.c_str(), x, features, eps);
    }
    /** x itself, but in training. */
    model_value dropout(model_value x, double p = 0.5) { return add(dhow_model_dropout, x, p); }
    /** A mask of -1 is none; a scale of 0 is 1 / sqrt(e). */
    model_value scaled_dot_product_attention(model_value query, model_value key, model_value value,
                                             model_value mask = -1, bool is_causal = false,
                                             double scale = 0) {
        return add(dhow_model_scaled_dot_product_attention, query, key, value, mask, is_causal,
                   scale);
    }
    /** A cache with new steps written into it, from a place of each sequence on. */
    model_value update_cache(model_value cache, model_value update, model_value start) {
        return add(dhow_model_update_cache, cache, update, start);
    }
    /** Attention to what there is in caches; a scale of 0 is 1 / sqrt(e), a softcap of 0 none. */
    model_value cached_attention(model_value query, model_value key, model_value value,
                                 model_value lengths, bool is_causal = false, double scale = 0,
                                 double softcap = 0) {
        return add(dhow_model_cached_attention, query, key, value, lengths, is_causal, scale,
                   softcap);
    }
    /** To a size. */
    model_value interpolate(model_value x, const std::vector<int64_t> &size,
                            dhow_interpolation mode = DHOW_INTERPOLATE_NEAREST,
                            bool align_corners = false) {
        return add(dhow_model_interpolate, x, size.data(), nullptr, mode, align_corners);
    }
    /** By a factor for each dimension. */
    model_value interpolate_by(model_value x, const std::vector<double> &scale_factor,
                               dhow_interpolation mode = DHOW_INTERPOLATE_NEAREST,
                               bool align_corners = false) {
        return add(dhow_model_interpolate, x, nullptr, scale_factor.data(), mode, align_corners);
    }
    model_value leaky_relu(model_value x, double alpha = 0.01) {
        return add(dhow_model_leaky_relu, x, alpha);
    }
    model_value elu(model_value x, double alpha = 1) { return add(dhow_model_elu, x, alpha); }
    model_value cast(model_value x, dhow_dtype dtype) { return add(dhow_model_cast, x, dtype); }
    model_value clip(model_value x, double low, double high) {
        return add(dhow_model_clip, x, low, high);
    }
    model_value affine(model_value x, scalar a, scalar b) {
        return add(dhow_model_affine, x, a.get(), b.get());
    }
    model_value reduce(dhow_reduction kind, model_value x, const dims &over = {},
                       bool keep_dims = false) {
        return add(dhow_model_reduce, kind, x, over.data(), static_cast<uint32_t>(over.size()),
                   keep_dims);
    }
    model_value var(model_value x, const dims &over = {}, double correction = 1,
                    bool keep_dims = false) {
        return add(dhow_model_var, x, over.data(), static_cast<uint32_t>(over.size()), correction,
                   keep_dims);
    }
    model_value std(model_value x, const dims &over = {}, double correction = 1,
                    bool keep_dims = false) {
        return add(dhow_model_std, x, over.data(), static_cast<uint32_t>(over.size()), correction,
                   keep_dims);
    }
    /** Parts of a dimension of extents that come to its own. */
    std::vector<model_value> split(model_value x, const std::vector<int64_t> &sizes,
                                   int32_t dim = 0) {
        std::vector<model_value> parts(sizes.size(), -1);
        check(dhow_model_split(get(), x, dim, sizes.data(), static_cast<uint32_t>(sizes.size()),
                               parts.data()));
        return parts;
    }
    std::vector<model_value> chunk(model_value x, uint32_t count, int32_t dim = 0) {
        std::vector<model_value> parts(count, -1);
        check(dhow_model_chunk(get(), x, dim, count, parts.data()));
        return parts;
    }

    /* ---- parameters and places ---- */

    model &load_state(const std::string &path) {
        check(dhow_model_load_state(get(), path.c_str()));
        return *this;
    }
    /** Tells `told` of each difference; flags are DHOW_STATE_... */
    model &load_state(const std::string &path, uint32_t flags,
                      std::function<void(dhow_state_difference, const std::string &name,
                                         const std::string &detail)>
                          told) {
        check(dhow_model_load_state_with(
            get(), path.c_str(), flags,
            [](void *user, dhow_state_difference difference, const char *name, const char *detail) {
                (*static_cast<decltype(told) *>(user))(difference, name, detail);
            },
            &told));
        return *this;
    }
    void save_state(const std::string &path) const {
        check(dhow_model_save_state(get(), path.c_str()));
    }
    model &set_parameter(const std::string &name, const tensor &value) {
        check(dhow_model_set_parameter(get(), name.c_str(), value.get()));
        return *this;
    }
    std::map<std::string, tensor> parameters() const {
        std::map<std::string, tensor> all;
        for (uint32_t i = 0; i < dhow_model_parameter_count(get()); i++) {
            const auto found =
                filled<dhow_model_parameter_info>([&](dhow_model_parameter_info *out) {
                    return dhow_model_parameter_at(get(), i, out);
                });
            check(dhow_tensor_retain(found.tensor));
            all[found.name] = tensor(found.tensor);
        }
        return all;
    }
#define DHOW_HPP_INFOS_(name, count, at)                                         \
    std::vector<dhow_model_value_info> name() const {                            \
        std::vector<dhow_model_value_info> all;                                  \
        for (uint32_t i = 0; i < count(get()); i++)                              \
            all.push_back(filled<dhow_model_value_info>(                         \
                [&](dhow_model_value_info *out) { return at(get(), i, out); })); \
        return all;                                                              \
    }
    DHOW_HPP_INFOS_(inputs, dhow_model_input_count, dhow_model_input_at)
    DHOW_HPP_INFOS_(outputs, dhow_model_output_count, dhow_model_output_at)
    /** What parameters are, without reading them. */
    DHOW_HPP_INFOS_(parameter_infos, dhow_model_parameter_count, dhow_model_parameter_describe)
#undef DHOW_HPP_INFOS_
    model &to(const dhow::device &d) {
        check(dhow_model_to(get(), d.get()));
        return *this;
    }
    model &place(const dhow::device &d, dhow_placement placement) {
        check(dhow_model_place(get(), d.get(), placement));
        return *this;
    }
    /** What a model of f32 computes in. */
    dhow_precision precision() const noexcept { return dhow_model_precision(get()); }
    model &set_precision(dhow_precision precision) {
        check(dhow_model_set_precision(get(), precision));
        return *this;
    }
    /** Copies on other devices. */
    std::vector<model> replicate(const std::vector<dhow::device> &devices) const {
        const auto where = handles(devices);
        std::vector<dhow_model *> copies(where.size(), nullptr);
        check(dhow_model_replicate(get(), where.data(), static_cast<uint32_t>(where.size()),
                                   copies.data()));
        std::vector<model> all;
        for (dhow_model *one : copies) all.emplace_back(one);
        return all;
    }
    dhow::device device() const { return dhow::device(dhow_model_device(get())); }

    /* ---- running ---- */

    /** New results, in the order of the outputs. */
    std::vector<tensor> run(const std::vector<tensor> &inputs, const stream &s = stream()) const {
        const auto in = handles(inputs);
        std::vector<dhow_tensor *> out(dhow_model_output_count(get()), nullptr);
        check(dhow_model_run(get(), s.get(), in.data(), static_cast<uint32_t>(in.size()),
                             out.data(), static_cast<uint32_t>(out.size())));
        return std::vector<tensor>(out.begin(), out.end());
    }
    /** Of a model with one output. */
    tensor operator()(const tensor &x) const { return run({x}).at(0); }
    /** Into tensors of the results' shapes: what a loop needs that allocates nothing. */
    void run_into(const std::vector<tensor> &inputs, const std::vector<tensor> &outputs,
                  const stream &s = stream()) const {
        const auto in = handles(inputs), out = handles(outputs);
        check(dhow_model_run_into(get(), s.get(), in.data(), static_cast<uint32_t>(in.size()),
                                  out.data(), static_cast<uint32_t>(out.size())));
    }
    /** By names, for the outputs that are named; an empty list stands for all. */
    std::map<std::string, tensor> run_named(const std::map<std::string, tensor> &inputs,
                                            const std::vector<std::string> &wanted = {},
                                            const stream &s = stream()) const {
        std::vector<std::string> names = wanted;
        if (names.empty())
            for (const dhow_model_value_info &info : outputs()) names.emplace_back(info.name);
        std::vector<dhow_named_tensor> in, out;
        for (const auto &[name, value] : inputs) in.push_back(named(name, value.get()));
        for (const std::string &name : names) out.push_back(named(name, nullptr));
        check(dhow_model_run_named(get(), s.get(), in.data(), static_cast<uint32_t>(in.size()),
                                   out.data(), static_cast<uint32_t>(out.size())));
        std::map<std::string, tensor> all;
        for (const dhow_named_tensor &one : out) all[one.name] = tensor(one.tensor);
        return all;
    }
    /** For models that take or give texts, sequences or nothing. */
    std::vector<datum> run_data(const std::vector<datum> &inputs,
                                const stream &s = stream()) const {
        const auto in = handles(inputs);
        std::vector<dhow_datum *> out(dhow_model_output_count(get()), nullptr);
        check(dhow_model_run_data(get(), s.get(), in.data(), static_cast<uint32_t>(in.size()),
                                  out.data(), static_cast<uint32_t>(out.size())));
        std::vector<datum> all;
        for (dhow_datum *one : out) all.emplace_back(one);
        return all;
    }
    dhow_model_summary summary() const {
        return filled<dhow_model_summary>(
            [&](dhow_model_summary *out) { return dhow_model_get_summary(get(), out); });
    }
    /** The steps of the latest plan; their names live until the next run. */
    std::vector<dhow_model_step_info> steps() const {
        std::vector<dhow_model_step_info> all;
        for (uint32_t i = 0; i < summary().step_count; i++)
            all.push_back(filled<dhow_model_step_info>(
                [&](dhow_model_step_info *out) { return dhow_model_step_at(get(), i, out); }));
        return all;
    }
    /** As PyTorch's layers begin, see dhow/train.h. */
    model &init_parameters(uint64_t seed) {
        check(dhow_model_init_parameters(get(), seed));
        return *this;
    }
    model &profile(bool on = true) {
        check(dhow_model_set_profiling(get(), on));
        return *this;
    }
    model &limit_memory(uint64_t bytes) {
        check(dhow_model_set_memory_limit(get(), bytes));
        return *this;
    }
    model &limit_time(double seconds) {
        check(dhow_model_set_time_limit(get(), seconds));
        return *this;
    }
    /** Ends the runs that other threads are in. */
    void cancel() const { check(dhow_model_cancel(get())); }

   private:
    template <typename Function, typename... Args>
    model_value add(Function function, const Args &...args) {
        model_value out = -1;
        check(function(get(), static_cast<argument<Args>>(args)..., &out));
        return out;
    }
    /** bool is int32_t in C. */
    template <typename T>
    using argument = std::conditional_t<std::is_same_v<T, bool>, int32_t, T>;
    static dhow_named_tensor named(const std::string &name, dhow_tensor *value) {
        dhow_named_tensor one = DHOW_INIT(dhow_named_tensor);
        one.name = name.c_str();
        one.tensor = value;
        return one;
    }
};

}  // namespace dhow

#endif /* DHOW_CPP_MODEL_HPP_ */
