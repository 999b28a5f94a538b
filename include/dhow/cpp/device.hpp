/* SPDX-License-Identifier: Apache-2.0
 *
 * Part of dhow/dhow.hpp: contexts, devices, streams, events, graphs and traces.
 */
#ifndef DHOW_CPP_DEVICE_HPP_
#define DHOW_CPP_DEVICE_HPP_

#include <exception>
#include <functional>
#include <memory>

#include "dhow/cpp/handle.hpp"

namespace dhow {

/* ---- contexts, devices, streams ---- */

/** A device, borrowed from its context. */
class device {
   public:
    device() = default;
    explicit device(dhow_device *handle) noexcept : handle_(handle) {}
    dhow_device *get() const noexcept { return handle_; }
    std::string name() const { return dhow_device_name(handle_); }
    dhow_device_info info() const {
        return filled<dhow_device_info>(
            [&](dhow_device_info *out) { return dhow_device_get_info(handle_, out); });
    }
    /** Starts the driver now, instead of with the first work. */
    void open() const { check(dhow_device_open(handle_)); }
    void sync() const { check(dhow_device_sync(handle_)); }
    dhow_precision precision() const noexcept { return dhow_device_precision(handle_); }
    void set_precision(dhow_precision precision) const {
        check(dhow_device_set_precision(handle_, precision));
    }
    dhow_memory_stats memory() const {
        return filled<dhow_memory_stats>(
            [&](dhow_memory_stats *out) { return dhow_memory_get_stats(handle_, out); });
    }
    void reset_memory_peaks() const { check(dhow_memory_reset_peaks(handle_)); }
    /** Gives cached memory back to the driver. */
    void trim() const { check(dhow_memory_trim(handle_)); }
    void limit_memory(uint64_t bytes) const { check(dhow_memory_set_limit(handle_, bytes)); }

   private:
    dhow_device *handle_ = nullptr;
};

class context : public shared_handle<dhow_context, dhow_context_retain, dhow_context_release> {
   public:
    context() : context(nullptr) {}
    explicit context(const dhow_context_options &options) : context(&options) {}
    /** The context of a device: another reference to it. */
    static context of(const dhow::device &device) {
        dhow_context *found = dhow_device_context(device.get());
        check(dhow_context_retain(found));
        return context(found, 0);
    }
    /** The first that there is of a preference list, "cuda,cpu"; nullptr: what DHOW_DEVICE says. */
    dhow::device device(const char *spec = nullptr) const {
        return dhow::device(made<dhow_device>(
            [&](dhow_device **out) { return dhow_device_get(get(), spec, out); }));
    }
    std::vector<dhow::device> devices() const {
        std::vector<dhow::device> all;
        for (uint32_t i = 0; i < dhow_device_count(get()); i++)
            all.emplace_back(made<dhow_device>(
                [&](dhow_device **out) { return dhow_device_at(get(), i, out); }));
        return all;
    }
    /** What became of each plugin file. */
    std::vector<dhow_plugin_record> plugins() const {
        std::vector<dhow_plugin_record> all;
        for (uint32_t i = 0; i < dhow_plugin_count(get()); i++)
            all.push_back(filled<dhow_plugin_record>(
                [&](dhow_plugin_record *out) { return dhow_plugin_at(get(), i, out); }));
        return all;
    }
    /** The optional libraries of plugins()[plugin]. */
    std::vector<dhow_plugin_component> components(uint32_t plugin) const {
        std::vector<dhow_plugin_component> all;
        const uint32_t count = plugins().at(plugin).component_count;
        for (uint32_t i = 0; i < count; i++)
            all.push_back(filled<dhow_plugin_component>([&](dhow_plugin_component *out) {
                return dhow_plugin_component_at(get(), plugin, i, out);
            }));
        return all;
    }

   private:
    explicit context(const dhow_context_options *options)
        : shared_handle(made<dhow_context>(
              [&](dhow_context **out) { return dhow_context_create(options, out); })) {}
    context(dhow_context *owned, int) noexcept : shared_handle(owned) {}
};

class event;

/** A queue of work; a default one is its device's default stream. */
class stream : public unique_handle<dhow_stream, dhow_stream_release> {
   public:
    stream() = default;
    explicit stream(const dhow::device &device)
        : unique_handle(made<dhow_stream>(
              [&](dhow_stream **out) { return dhow_stream_create(device.get(), out); })) {}
    /** Over a program's own cudaStream_t or cl_command_queue, which outlives it. */
    static stream wrap(const dhow::device &device, uint64_t native) {
        stream wrapped;
        static_cast<unique_handle &>(wrapped) = unique_handle(made<dhow_stream>(
            [&](dhow_stream **out) { return dhow_stream_wrap(device.get(), native, out); }));
        return wrapped;
    }
    /** The number of a device's default stream for the vendor's API, and of this one. */
    static uint64_t native_default(const dhow::device &device) {
        uint64_t number = 0;
        check(dhow_stream_native(made<dhow_stream>([&](dhow_stream **out) {
                                     return dhow_stream_default(device.get(), out);
                                 }),
                                 &number));
        return number;
    }
    uint64_t native() const {
        uint64_t number = 0;
        check(dhow_stream_native(get(), &number));
        return number;
    }
    dhow::device device() const { return dhow::device(dhow_stream_device(get())); }
    void sync() const { check(dhow_stream_sync(get())); }
    /** Whether all work has ended. */
    bool done() const {
        const dhow_status status = dhow_stream_query(get());
        if (status != DHOW_NOT_READY) check(status);
        return status == DHOW_OK;
    }
    /** Later work waits for the event, on the device where that is possible. */
    void wait(const event &e) const;
    /** The same for a program's own cudaEvent_t or cl_event. */
    void wait_native(uint64_t native_event) const {
        check(dhow_stream_wait_native(get(), native_event));
    }
};

class event : public unique_handle<dhow_event, dhow_event_release> {
   public:
    explicit event(const dhow::device &device, bool timing = false)
        : unique_handle(made<dhow_event>(
              [&](dhow_event **out) { return dhow_event_create(device.get(), timing, out); })) {}
    void record(const stream &s = stream()) const { check(dhow_event_record(get(), s.get())); }
    void sync() const { check(dhow_event_sync(get())); }
    /** Whether the work before it has ended. */
    bool done() const {
        const dhow_status status = dhow_event_query(get());
        if (status != DHOW_NOT_READY) check(status);
        return status == DHOW_OK;
    }
    uint64_t native() const {
        uint64_t number = 0;
        check(dhow_event_native(get(), &number));
        return number;
    }
    /** Milliseconds from `start` to this event; both were made with timing. */
    double since(const event &start) const {
        double ms = 0;
        check(dhow_event_elapsed_ms(start.get(), get(), &ms));
        return ms;
    }
};

inline void stream::wait(const event &e) const { check(dhow_stream_wait(get(), e.get())); }

/* ---- recorded work and traces ---- */

/** What a graph submits, and what that threw. */
struct graph_recording {
    std::function<void(const stream &)> work;
    std::exception_ptr thrown;
};

/** Work that is recorded once and replayed: graph g(stream, [&](const dhow::stream &s) {...}). */
class graph : private std::unique_ptr<graph_recording>, /* ends after the graph */
              public unique_handle<dhow_graph, dhow_graph_release> {
    using handle = unique_handle<dhow_graph, dhow_graph_release>;
    using recording = std::unique_ptr<graph_recording>;

   public:
    using handle::get;
    using handle::release;
    using handle::operator bool;
    /** Calls `work` twice with the stream; what it throws is thrown here. It is kept with the
     * graph. */
    graph(const stream &s, std::function<void(const stream &)> work)
        : graph(s, std::make_unique<graph_recording>(graph_recording{std::move(work), nullptr})) {}
    void replay(const stream &s = stream()) const { check(dhow_graph_replay(get(), s.get())); }
    /** "" for a graph that the device replays, else why the work is submitted anew each time. */
    std::string reason() const { return dhow_graph_reason(get()); }

   private:
    graph(const stream &s, recording kept)
        : recording(std::move(kept)), handle(record(s.get(), recording::get())) {}
    static dhow_graph *record(dhow_stream *s, graph_recording *r) {
        dhow_graph *out = nullptr;
        const dhow_status status = dhow_graph_record(s, run, r, &out);
        if (r->thrown) std::rethrow_exception(std::exchange(r->thrown, nullptr));
        check(status);
        return out;
    }
    static dhow_status run(void *user, dhow_stream *handle) {
        graph_recording *r = static_cast<graph_recording *>(user);
        dhow_status status = DHOW_OK;
        stream borrowed;
        static_cast<unique_handle<dhow_stream, dhow_stream_release> &>(borrowed) =
            unique_handle<dhow_stream, dhow_stream_release>(handle);
        try {
            r->work(borrowed);
        } catch (const error &e) {
            status = e.status();
            r->thrown = std::current_exception();
        } catch (...) {
            status = dhow_set_error(DHOW_CANCELLED, "the work of a graph threw an exception");
            r->thrown = std::current_exception();
        }
        (void)borrowed.release();
        return status;
    }
};

/** Records what all devices do while it lives, and writes it for Perfetto. A destructor says
 * nothing of a file that cannot be written: save() does. */
class trace {
   public:
    trace(dhow::context c, std::string path) : context_(std::move(c)), path_(std::move(path)) {
        check(dhow_trace_start(context_.get(), 0));
    }
    trace(const trace &) = delete;
    trace &operator=(const trace &) = delete;
    ~trace() {
        if (dhow_trace_save(context_.get(), path_.c_str()) != DHOW_OK ||
            dhow_trace_stop(context_.get()) != DHOW_OK)
            return;
    }
    void save() const { check(dhow_trace_save(context_.get(), path_.c_str())); }
    dhow_trace_stats stats() const {
        return filled<dhow_trace_stats>(
            [&](dhow_trace_stats *out) { return dhow_trace_get_stats(context_.get(), out); });
    }

   private:
    dhow::context context_;
    std::string path_;
};

/** A region of the program's own in a trace: as long as it lives. */
class trace_region {
   public:
    trace_region(dhow::context c, std::string name)
        : context_(std::move(c)), name_(std::move(name)), begin_(dhow_trace_now()) {}
    trace_region(const trace_region &) = delete;
    trace_region &operator=(const trace_region &) = delete;
    ~trace_region() {
        if (dhow_trace_region(context_.get(), name_.c_str(), begin_, dhow_trace_now()) != DHOW_OK)
            return;
    }

   private:
    dhow::context context_;
    std::string name_;
    int64_t begin_;
};

}  // namespace dhow

#endif /* DHOW_CPP_DEVICE_HPP_ */
