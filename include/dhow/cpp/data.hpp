/* SPDX-License-Identifier: Apache-2.0
 *
 * Part of dhow/dhow.hpp: datasets, loaders, predictions, several devices.
 */
#ifndef DHOW_CPP_DATA_HPP_
#define DHOW_CPP_DATA_HPP_

#include "dhow/cpp/model.hpp"

namespace dhow {

/* ---- data ---- */

/** What a function that dhow calls back throws, as a status with its message. */
template <typename Call>
dhow_status guarded(dhow_status status, Call call) {
    try {
        call();
    } catch (const error &e) {
        return dhow_set_error(e.status(), "%s", e.what());
    } catch (const std::exception &e) {
        return dhow_set_error(status, "%s", e.what());
    }
    return DHOW_OK;
}

/** Reads samples where a program keeps them: see dhow_dataset_source. */
struct dataset_source {
    int64_t sample_count;
    std::vector<dhow_dataset_column> columns;
    /** Writes the samples of `indices` into one buffer for each column; what it throws ends the
     * loader's call with its message. It is called by several threads at once. */
    std::function<void(const int64_t *indices, int64_t count, void *const *columns)> read;
};

class dataset : public unique_handle<dhow_dataset, dhow_dataset_release> {
   public:
    using unique_handle::unique_handle;
    /** Samples are the first dimension of each column, on the host. */
    static dataset from(const std::vector<tensor> &columns) {
        const auto all = handles(columns);
        return dataset(made<dhow_dataset>([&](dhow_dataset **out) {
            return dhow_dataset_from_tensors(all.data(), static_cast<uint32_t>(all.size()), out);
        }));
    }
    static dataset open_npy(const context &c, const std::vector<std::string> &paths) {
        std::vector<const char *> names;
        for (const std::string &path : paths) names.push_back(path.c_str());
        return dataset(made<dhow_dataset>([&](dhow_dataset **out) {
            return dhow_dataset_open_npy(c.get(), names.data(), static_cast<uint32_t>(names.size()),
                                         out);
        }));
    }
    static dataset from(const context &c, dataset_source source) {
        auto kept = std::make_unique<dataset_source>(std::move(source));
        dhow_dataset_source s = DHOW_INIT(dhow_dataset_source);
        s.sample_count = kept->sample_count;
        s.column_count = static_cast<uint32_t>(kept->columns.size());
        s.columns = kept->columns.data();
        s.user = kept.get();
        s.release = [](void *user) {
            std::unique_ptr<dataset_source> ended(static_cast<dataset_source *>(user));
        };
        s.read = [](void *user, const int64_t *indices, int64_t count, void *const *columns) {
            return guarded(DHOW_IO_ERROR, [&] {
                static_cast<dataset_source *>(user)->read(indices, count, columns);
            });
        };
        dataset found(made<dhow_dataset>(
            [&](dhow_dataset **out) { return dhow_dataset_create(c.get(), &s, out); }));
        (void)kept.release();
        return found;
    }
    /** The samples of some indices: a tensor for each column. */
    std::vector<tensor> read(const std::vector<int64_t> &indices) const {
        std::vector<dhow_tensor *> all(dhow_dataset_column_count(get()), nullptr);
        check(dhow_dataset_read(get(), indices.data(), static_cast<int64_t>(indices.size()),
                                all.data()));
        return std::vector<tensor>(all.begin(), all.end());
    }
    /** Some samples, in the order of the indices. */
    dataset subset(const std::vector<int64_t> &indices) const {
        return dataset(made<dhow_dataset>([&](dhow_dataset **out) {
            return dhow_dataset_subset(get(), indices.data(), static_cast<int64_t>(indices.size()),
                                       out);
        }));
    }
    /** Parts that share no sample; a count of -1 is the rest. */
    std::vector<dataset> split(const std::vector<int64_t> &counts, bool shuffle = false,
                               uint64_t seed = 0) const {
        std::vector<dhow_dataset *> parts(counts.size(), nullptr);
        check(dhow_dataset_split(get(), counts.data(), static_cast<uint32_t>(counts.size()),
                                 shuffle, seed, parts.data()));
        std::vector<dataset> all;
        for (dhow_dataset *part : parts) all.emplace_back(part);
        return all;
    }
    static dataset concat(const std::vector<dataset> &parts) {
        const auto all = handles(parts);
        return dataset(made<dhow_dataset>([&](dhow_dataset **out) {
            return dhow_dataset_concat(all.data(), static_cast<uint32_t>(all.size()), out);
        }));
    }
    /** Samples made of these as they are read: in[c] and out[c] are column c of one sample each.
     * No columns: they stay what they are. It is called by several threads at once. */
    dataset map(std::function<void(const dhow_sample &, const void *const *in, void *const *out)> f,
                const std::vector<dhow_dataset_column> &columns = {}) const {
        auto kept = std::make_unique<decltype(f)>(std::move(f));
        dhow_dataset_mapping m = DHOW_INIT(dhow_dataset_mapping);
        m.column_count = static_cast<uint32_t>(columns.size());
        m.columns = columns.data();
        m.user = kept.get();
        m.release = [](void *user) {
            std::unique_ptr<decltype(f)> ended(static_cast<decltype(f) *>(user));
        };
        m.map = [](void *user, const dhow_sample *sample, const void *const *in, void *const *out) {
            return guarded(DHOW_IO_ERROR,
                           [&] { (*static_cast<decltype(f) *>(user))(*sample, in, out); });
        };
        dataset mapped(made<dhow_dataset>(
            [&](dhow_dataset **out) { return dhow_dataset_map(get(), &m, out); }));
        (void)kept.release();
        return mapped;
    }
    int64_t sample_count() const { return dhow_dataset_sample_count(get()); }
    std::vector<dhow_dataset_column> columns() const {
        std::vector<dhow_dataset_column> all;
        for (uint32_t i = 0; i < dhow_dataset_column_count(get()); i++)
            all.push_back(filled<dhow_dataset_column>(
                [&](dhow_dataset_column *out) { return dhow_dataset_column_at(get(), i, out); }));
        return all;
    }
};

/** A batch: tensors that stay what they are for as long as it is held. */
struct batch {
    int64_t epoch, index, sample_count;
    std::vector<tensor> tensors;
    /** Of a batch that C gives. */
    static batch of(const dhow_batch &b) {
        batch all{b.epoch, b.index, b.sample_count, {}};
        for (uint32_t i = 0; b.sample_count > 0 && i < b.tensor_count; i++) {
            check(dhow_tensor_retain(b.tensors[i]));
            all.tensors.emplace_back(b.tensors[i]);
        }
        return all;
    }
};

class loader : public unique_handle<dhow_loader, dhow_loader_release> {
   public:
    explicit loader(const dataset &d,
                    const dhow_loader_options &options = DHOW_INIT(dhow_loader_options))
        : unique_handle(made<dhow_loader>(
              [&](dhow_loader **out) { return dhow_loader_create(d.get(), &options, out); })) {}
    /** False at the end of an epoch; the next call begins another one. */
    bool next(batch &out) {
        dhow_batch b = DHOW_INIT(dhow_batch);
        check(dhow_loader_next(get(), &b));
        out = batch::of(b);
        return b.sample_count > 0;
    }
    void restart(int64_t epoch, int64_t first_batch = 0) {
        check(dhow_loader_restart(get(), epoch, first_batch));
    }
    int64_t batch_count() const { return dhow_loader_batch_count(get()); }
    /** The sample at a place of an epoch's order. */
    int64_t sample_at(int64_t epoch, int64_t position) const {
        return dhow_loader_sample_at(get(), epoch, position);
    }
};

/** Where predictions go. */
class sink : private std::unique_ptr<std::function<void(const batch &)>>, /* ends after the sink */
             public unique_handle<dhow_sink, dhow_sink_release> {
    using handle = unique_handle<dhow_sink, dhow_sink_release>;
    using taker = std::unique_ptr<std::function<void(const batch &)>>;

   public:
    using handle::get;
    using handle::release;
    using handle::operator bool;
    static sink to_tensors(const context &c) {
        return sink(
            made<dhow_sink>([&](dhow_sink **out) { return dhow_sink_to_tensors(c.get(), out); }));
    }
    static sink to_npy(const context &c, const std::vector<std::string> &paths) {
        std::vector<const char *> names;
        for (const std::string &path : paths) names.push_back(path.c_str());
        return sink(made<dhow_sink>([&](dhow_sink **out) {
            return dhow_sink_to_npy(c.get(), names.data(), static_cast<uint32_t>(names.size()),
                                    out);
        }));
    }
    /** Calls `take` with each batch of results, in order. */
    static sink to_function(const context &c, std::function<void(const batch &)> take) {
        auto kept = std::make_unique<std::function<void(const batch &)>>(std::move(take));
        dhow_sink *owned = made<dhow_sink>([&](dhow_sink **out) {
            return dhow_sink_to_function(
                c.get(),
                [](void *user, const dhow_batch *results) {
                    return guarded(DHOW_CANCELLED, [&] {
                        (*static_cast<std::function<void(const batch &)> *>(user))(
                            batch::of(*results));
                    });
                },
                kept.get(), out);
        });
        return sink(owned, std::move(kept));
    }
    /** What was predicted for an output, of a sink to tensors. */
    dhow::tensor tensor(uint32_t output = 0) const {
        return dhow::tensor(made<dhow_tensor>(
            [&](dhow_tensor **out) { return dhow_sink_tensor(get(), output, out); }));
    }
    /** Completes the files. */
    void finish() const { check(dhow_sink_finish(get())); }

   private:
    explicit sink(dhow_sink *owned, taker take = nullptr) noexcept
        : taker(std::move(take)), handle(owned) {}
};

inline void predict(const model &m, const loader &from, const sink &to) {
    check(dhow_predict(m.get(), from.get(), to.get()));
}

/* ---- several devices ---- */

/** One model on several devices, batches divided by measured speed. */
class parallel : public unique_handle<dhow_parallel, dhow_parallel_release> {
   public:
    parallel(const model &m, const std::vector<dhow::device> &devices,
             const dhow_parallel_options &options = DHOW_INIT(dhow_parallel_options))
        : unique_handle(create(m.get(), handles(devices), &options)),
          output_count_(dhow_model_output_count(m.get())) {}
    std::vector<tensor> run(const std::vector<tensor> &inputs) const {
        const auto in = handles(inputs);
        std::vector<dhow_tensor *> out(output_count_, nullptr);
        check(dhow_parallel_run(get(), in.data(), static_cast<uint32_t>(in.size()), out.data(),
                                static_cast<uint32_t>(out.size())));
        return std::vector<tensor>(out.begin(), out.end());
    }
    void run_into(const std::vector<tensor> &inputs, const std::vector<tensor> &outputs) const {
        const auto in = handles(inputs), out = handles(outputs);
        check(dhow_parallel_run_into(get(), in.data(), static_cast<uint32_t>(in.size()), out.data(),
                                     static_cast<uint32_t>(out.size())));
    }
    void predict(const loader &from, const sink &to) const {
        check(dhow_parallel_predict(get(), from.get(), to.get()));
    }
    std::vector<dhow_parallel_member> members() const {
        std::vector<dhow_parallel_member> all;
        for (uint32_t i = 0; i < dhow_parallel_member_count(get()); i++)
            all.push_back(filled<dhow_parallel_member>(
                [&](dhow_parallel_member *out) { return dhow_parallel_member_at(get(), i, out); }));
        return all;
    }

   private:
    static dhow_parallel *create(dhow_model *m, const std::vector<dhow_device *> &devices,
                                 const dhow_parallel_options *options) {
        return made<dhow_parallel>([&](dhow_parallel **out) {
            return dhow_parallel_create(m, devices.data(), static_cast<uint32_t>(devices.size()),
                                        options, out);
        });
    }
    uint32_t output_count_;
};

}  // namespace dhow

#endif /* DHOW_CPP_DATA_HPP_ */
