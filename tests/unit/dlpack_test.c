/* SPDX-License-Identifier: Apache-2.0
 *
 * DLPack on the host: what goes out comes in again as it was, without a copy; what dhow has not is
 * refused by its value and stays the caller's; deleters are called once.
 */
#include "dhow/dlpack.h"

#include <pthread.h>
#include <stdatomic.h>

#include "data_fixture.h"

static void set_up(void) { open_context("delay_us=20000", ""); }
TestSuite(dlpack, .init = set_up, .fini = close_context, .timeout = 60);

/* The ABI of the specification, on 64-bit machines. */
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(sizeof(DLDevice) == 8 && sizeof(DLDataType) == 4 && sizeof(DLTensor) == 48, "ABI");
_Static_assert(offsetof(DLTensor, dtype) == 20 && offsetof(DLTensor, shape) == 24, "ABI");
_Static_assert(offsetof(DLTensor, byte_offset) == 40, "ABI");
_Static_assert(sizeof(DLManagedTensor) == 64 && offsetof(DLManagedTensor, deleter) == 56, "ABI");
_Static_assert(sizeof(DLManagedTensorVersioned) == 80, "ABI");
_Static_assert(offsetof(DLManagedTensorVersioned, deleter) == 16, "ABI");
_Static_assert(offsetof(DLManagedTensorVersioned, flags) == 24, "ABI");
#endif

/* ---- a producer ---- */

typedef struct producer {
    DLManagedTensorVersioned versioned;
    DLManagedTensor old;
    atomic_int deleted;
    int64_t shape[DHOW_MAX_RANK + 1], strides[DHOW_MAX_RANK + 1];
    _Alignas(64) float values[64];
} producer;

static void delete_versioned(DLManagedTensorVersioned *m) {
    atomic_fetch_add(&((producer *)m->manager_ctx)->deleted, 1);
}
static void delete_old(DLManagedTensor *m) {
    atomic_fetch_add(&((producer *)m->manager_ctx)->deleted, 1);
}

/* f32[2, 3], with NULL strides. */
static void produce(producer *p) {
    memset(p, 0, sizeof *p);
    for (int i = 0; i < 64; i++) p->values[i] = (float)i;
    p->shape[0] = 2;
    p->shape[1] = 3;
    DLTensor t = {.data = p->values,
                  .device = {kDLCPU, 0},
                  .ndim = 2,
                  .dtype = {kDLFloat, 32, 1},
                  .shape = p->shape};
    p->versioned = (DLManagedTensorVersioned){.version = {1, 0},
                                              .manager_ctx = p,
                                              .deleter = delete_versioned,
                                              .dl_tensor = t};
    p->old = (DLManagedTensor){.dl_tensor = t, .manager_ctx = p, .deleter = delete_old};
}

static void refuse(producer *p, dhow_status status, const char *says) {
    dhow_tensor *t = (dhow_tensor *)p;
    FAILS(status, dhow_tensor_from_dlpack(g_context, &p->versioned, &t));
    SAYS(says);
    cr_assert_null(t);
    cr_assert_eq(p->deleted, 0, "a failed import must leave the deleter to the caller");
}

/* ---- round trips ---- */

/* Element types by name, since an expectation taken from the code under test proves nothing. */
static const struct {
    dhow_dtype dtype;
    uint8_t code, bits;
} k_types[] = {{DHOW_F32, 2, 32}, {DHOW_F64, 2, 64}, {DHOW_F16, 2, 16}, {DHOW_BF16, 4, 16},
               {DHOW_I8, 0, 8},   {DHOW_U8, 1, 8},   {DHOW_I16, 0, 16}, {DHOW_U16, 1, 16},
               {DHOW_I32, 0, 32}, {DHOW_U32, 1, 32}, {DHOW_I64, 0, 64}, {DHOW_U64, 1, 64},
               {DHOW_BOOL, 6, 8}};

Test(dlpack, every_dtype_goes_out_and_comes_in_without_a_copy) {
    for (size_t i = 0; i < sizeof k_types / sizeof k_types[0]; i++) {
        DLManagedTensorVersioned *m;
        dhow_tensor *t, *back;
        dhow_tensor_info info = DHOW_INIT(dhow_tensor_info);
        void *before, *after;
        OK(dhow_tensor_full(g_cpu, k_types[i].dtype, DHOW_SHAPE(2, 3), 1, &t));
        OK(dhow_tensor_host_ptr(t, &before));
        OK(dhow_tensor_to_dlpack(t, NULL, &m));
        cr_assert_eq(m->version.major, 1);
        cr_assert_eq(m->flags, 0);
        cr_assert_eq(m->dl_tensor.dtype.code, k_types[i].code);
        cr_assert_eq(m->dl_tensor.dtype.bits, k_types[i].bits);
        cr_assert_eq(m->dl_tensor.dtype.lanes, 1);
        cr_assert_eq((int)m->dl_tensor.device.device_type, kDLCPU);
        cr_assert_eq(m->dl_tensor.data, before);
        OK(dhow_tensor_from_dlpack(g_context, m, &back));
        dhow_tensor_release(t); /* the export keeps it */
        OK(dhow_tensor_get_info(back, &info));
        OK(dhow_tensor_host_ptr(back, &after));
        cr_assert_eq(after, before);
        cr_assert(info.dtype == k_types[i].dtype && info.rank == 2 && info.shape[0] == 2 &&
                  info.shape[1] == 3 && info.contiguous);
        dhow_tensor_release(back);
    }
}

Test(dlpack, views_keep_their_strides_and_where_they_begin) {
    DLManagedTensorVersioned *m;
    dhow_tensor *t, *part, *turned, *back;
    float values[24], got[6];
    for (int i = 0; i < 24; i++) values[i] = (float)i;
    OK(dhow_tensor_from_data(g_cpu, DHOW_F32, DHOW_SHAPE(4, 6), values, &t));
    OK(dhow_tensor_slice(t, 1, 1, 6, 2, &part)); /* [4, 3], columns 1 3 5 */
    OK(dhow_tensor_narrow(part, 0, 2, 2, &turned));
    dhow_tensor_release(part);
    OK(dhow_tensor_transpose(turned, 0, 1, &part)); /* [3, 2] */
    OK(dhow_tensor_to_dlpack(part, NULL, &m));
    cr_assert_eq(m->dl_tensor.strides[0], 2);
    cr_assert_eq(m->dl_tensor.strides[1], 6);
    cr_assert_eq(*(float *)m->dl_tensor.data, 13);
    cr_assert_eq(m->dl_tensor.byte_offset, 0);
    OK(dhow_tensor_from_dlpack(g_context, m, &back));
    OK(dhow_tensor_read(back, got, sizeof got));
    for (int i = 0; i < 6; i++) cr_assert_eq(got[i], (float)(13 + 2 * (i / 2) + 6 * (i % 2)));
    /* Written there, it is written here. */
    OK(dhow_fill(NULL, back, 7));
    OK(dhow_tensor_read(t, values, sizeof values));
    for (int i = 0; i < 24; i++)
        cr_assert_eq(values[i], i >= 12 && i % 2 == 1 ? 7 : (float)i, "element %d", i);
    dhow_tensor_release(back);
    dhow_tensor_release(part);
    dhow_tensor_release(turned);
    dhow_tensor_release(t);
}

Test(dlpack, tensors_of_rank_0_and_without_elements_pass) {
    static const int64_t none[] = {3, 0, 2};
    DLManagedTensorVersioned *m;
    dhow_tensor *t, *back;
    void *data;
    float value = 0;
    OK(dhow_tensor_full(g_cpu, DHOW_F32, 0, NULL, 42, &t));
    OK(dhow_tensor_to_dlpack(t, NULL, &m));
    cr_assert_eq(m->dl_tensor.ndim, 0);
    OK(dhow_tensor_from_dlpack(g_context, m, &back));
    OK(dhow_tensor_read(back, &value, sizeof value));
    cr_assert_eq(value, 42);
    dhow_tensor_release(back);
    dhow_tensor_release(t);
    OK(dhow_tensor_create(g_cpu, DHOW_F16, 3, none, &t));
    OK(dhow_tensor_to_dlpack(t, NULL, &m));
    cr_assert_null(m->dl_tensor.data, "DLPack wants NULL for no elements");
    OK(dhow_tensor_from_dlpack(g_context, m, &back));
    cr_assert_eq(dhow_tensor_count(back), 0);
    cr_assert_eq(dhow_tensor_extent(back, 2), 2);
    dhow_tensor_release(t);
    /* What came in with NULL had counted as memory of a device. */
    OK(dhow_tensor_to_dlpack(back, NULL, &m));
    m->deleter(m);
    OK(dhow_tensor_host_ptr(back, &data));
    dhow_tensor_release(back);
}

Test(dlpack, ten_thousand_round_trips_copy_nothing_and_leave_nothing) {
    dhow_memory_stats before = DHOW_INIT(dhow_memory_stats), after = before;
    dhow_tensor *t, *back;
    void *data, *seen;
    OK(dhow_tensor_full(g_cpu, DHOW_F32, DHOW_SHAPE(64), 1, &t));
    OK(dhow_tensor_host_ptr(t, &data));
    OK(dhow_memory_get_stats(g_cpu, &before));
    for (int i = 0; i < 10000; i++) {
        DLManagedTensorVersioned *m;
        DLManagedTensor *old;
        if (i % 2 == 0) {
            OK(dhow_tensor_to_dlpack(t, NULL, &m));
            OK(dhow_tensor_from_dlpack(g_context, m, &back));
        } else {
            OK(dhow_tensor_to_dlpack_unversioned(t, NULL, &old));
            OK(dhow_tensor_from_dlpack_unversioned(g_context, old, &back));
        }
        OK(dhow_tensor_host_ptr(back, &seen));
        cr_assert_eq(seen, data);
        dhow_tensor_release(back);
    }
    OK(dhow_memory_get_stats(g_cpu, &after));
    cr_assert_eq(after.allocations, before.allocations);
    cr_assert_eq(after.live, before.live);
    dhow_tensor_release(t);
}

/* ---- who owns what ---- */

Test(dlpack, the_deleter_is_called_once_when_the_last_view_goes) {
    producer p;
    dhow_tensor *t, *row;
    float got[3];
    produce(&p);
    p.versioned.dl_tensor.byte_offset = 8 * sizeof(float);
    OK(dhow_tensor_from_dlpack(g_context, &p.versioned, &t));
    OK(dhow_tensor_select(t, 0, 1, &row));
    dhow_tensor_release(t);
    cr_assert_eq(p.deleted, 0);
    OK(dhow_tensor_read(row, got, sizeof got));
    cr_assert(got[0] == 11 && got[2] == 13);
    dhow_tensor_release(row);
    cr_assert_eq(p.deleted, 1);
    produce(&p);
    OK(dhow_tensor_from_dlpack_unversioned(g_context, &p.old, &t));
    dhow_tensor_release(t);
    cr_assert_eq(p.deleted, 1);
    produce(&p);
    p.versioned.deleter = NULL; /* allowed: memory that needs no end */
    OK(dhow_tensor_from_dlpack(g_context, &p.versioned, &t));
    dhow_tensor_release(t);
}

static void *call_deleter(void *managed) {
    DLManagedTensorVersioned *m = managed;
    m->deleter(m);
    return NULL;
}

Test(dlpack, a_consumer_may_delete_in_another_thread_when_the_context_is_released) {
    DLManagedTensorVersioned *m;
    dhow_tensor *t;
    pthread_t thread;
    OK(dhow_tensor_full(g_cpu, DHOW_F32, DHOW_SHAPE(5), 3, &t));
    OK(dhow_tensor_to_dlpack(t, NULL, &m));
    dhow_tensor_release(t);
    dhow_context_release(g_context);
    cr_assert_eq(((float *)m->dl_tensor.data)[4], 3, "the export keeps the values");
    cr_assert_eq(pthread_create(&thread, NULL, call_deleter, m), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    open_context("", "");
}

Test(dlpack, read_only_is_frozen_in_both_directions) {
    DLManagedTensorVersioned *m;
    DLManagedTensor *old;
    producer p;
    dhow_tensor *t, *wide;
    produce(&p);
    p.versioned.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
    OK(dhow_tensor_from_dlpack(g_context, &p.versioned, &t));
    FAILS(DHOW_INVALID_ARGUMENT, dhow_fill(NULL, t, 0));
    SAYS("frozen");
    OK(dhow_tensor_to_dlpack(t, NULL, &m));
    cr_assert_eq(m->flags, DLPACK_FLAG_BITMASK_READ_ONLY);
    m->deleter(m);
    old = (DLManagedTensor *)&p;
    FAILS(DHOW_INVALID_ARGUMENT, dhow_tensor_to_dlpack_unversioned(t, NULL, &old));
    SAYS("frozen");
    cr_assert_null(old);
    dhow_tensor_release(t);
    cr_assert_eq(p.deleted, 1);
    /* Several indices of an expanded view share an element: nobody may write through it. */
    OK(dhow_tensor_full(g_cpu, DHOW_F32, DHOW_SHAPE(1, 3), 1, &t));
    OK(dhow_tensor_expand(t, DHOW_SHAPE(4, 3), &wide));
    OK(dhow_tensor_to_dlpack(wide, NULL, &m));
    cr_assert_eq(m->dl_tensor.strides[0], 0);
    cr_assert_eq(m->flags, DLPACK_FLAG_BITMASK_READ_ONLY);
    m->deleter(m);
    FAILS(DHOW_INVALID_ARGUMENT, dhow_tensor_to_dlpack_unversioned(wide, NULL, &old));
    SAYS("expanded");
    dhow_tensor_release(wide);
    dhow_tensor_release(t);
}

/* ---- what is refused ---- */

Test(dlpack, types_that_dhow_has_not_are_refused_by_their_value) {
    producer p;
    produce(&p);
    p.versioned.dl_tensor.dtype.lanes = 4;
    refuse(&p, DHOW_INVALID_ARGUMENT, "4 lanes");
    p.versioned.dl_tensor.dtype = (DLDataType){kDLComplex, 64, 1};
    refuse(&p, DHOW_INVALID_ARGUMENT, "type code 5 (complex) with 64 bits");
    p.versioned.dl_tensor.dtype = (DLDataType){kDLFloat8_e5m2, 8, 1};
    refuse(&p, DHOW_INVALID_ARGUMENT, "float8_e5m2");
    p.versioned.dl_tensor.dtype = (DLDataType){kDLOpaqueHandle, 64, 1};
    refuse(&p, DHOW_INVALID_ARGUMENT, "opaque");
    p.versioned.dl_tensor.dtype = (DLDataType){kDLInt, 4, 1};
    refuse(&p, DHOW_INVALID_ARGUMENT, "(int) with 4 bits");
    p.versioned.dl_tensor.dtype = (DLDataType){200, 8, 1};
    refuse(&p, DHOW_INVALID_ARGUMENT, "type code 200 (unknown)");
}

Test(dlpack, shapes_strides_and_places_that_dhow_has_not_are_refused_by_their_value) {
    producer p;
    produce(&p);
    p.versioned.dl_tensor.strides = p.strides;
    p.strides[0] = -3;
    p.strides[1] = 1;
    refuse(&p, DHOW_INVALID_ARGUMENT, "stride 0 is -3");
    p.strides[0] = 2; /* rows of three, two apart */
    refuse(&p, DHOW_INVALID_ARGUMENT, "stride 0 is 2: several indices overlap");
    p.strides[0] = 3;
    p.strides[1] = 0;
    refuse(&p, DHOW_INVALID_ARGUMENT, "stride 1 is 0: several indices overlap");
    p.strides[1] = INT64_MAX;
    refuse(&p, DHOW_OUT_OF_RANGE, "stride 1");
    produce(&p);
    p.shape[1] = -1;
    refuse(&p, DHOW_INVALID_ARGUMENT, "extent 1 is -1");
    p.shape[0] = p.shape[1] = INT64_C(1) << 40;
    refuse(&p, DHOW_OUT_OF_RANGE, "more bytes than an address holds");
    produce(&p);
    p.versioned.dl_tensor.ndim = 9;
    refuse(&p, DHOW_INVALID_ARGUMENT, "ndim is 9");
    p.versioned.dl_tensor.ndim = -1;
    refuse(&p, DHOW_INVALID_ARGUMENT, "ndim is -1");
    produce(&p);
    p.versioned.dl_tensor.shape = NULL;
    refuse(&p, DHOW_INVALID_ARGUMENT, "shape is NULL");
    produce(&p);
    p.versioned.dl_tensor.byte_offset = 2;
    refuse(&p, DHOW_INVALID_ARGUMENT, "not aligned to 4 bytes");
    p.versioned.dl_tensor.byte_offset = UINT64_MAX - 3;
    refuse(&p, DHOW_OUT_OF_RANGE, "byte_offset");
    produce(&p);
    p.versioned.dl_tensor.data = NULL;
    refuse(&p, DHOW_INVALID_ARGUMENT, "NULL");
    produce(&p);
    p.versioned.dl_tensor.device.device_type = kDLMetal;
    refuse(&p, DHOW_NOT_FOUND, "type 8 (Metal) with device_id 0");
    p.versioned.dl_tensor.device.device_type = kDLCUDA;
    refuse(&p, DHOW_NOT_FOUND, "type 2 (CUDA) with device_id 0");
    p.versioned.dl_tensor.device = (DLDevice){kDLCPU, -2};
    refuse(&p, DHOW_INVALID_ARGUMENT, "device_id is -2");
    produce(&p);
    p.versioned.version.major = 2;
    refuse(&p, DHOW_INCOMPATIBLE, "DLPack 2.0");
}

/* Strides of extents of one say nothing: NumPy puts anything there. */
Test(dlpack, strides_of_single_elements_are_of_no_matter) {
    producer p;
    dhow_tensor *t;
    dhow_tensor_info info = DHOW_INIT(dhow_tensor_info);
    produce(&p);
    p.versioned.dl_tensor.strides = p.strides;
    p.shape[0] = 1;
    p.strides[0] = -77;
    p.strides[1] = 2;
    OK(dhow_tensor_from_dlpack(g_context, &p.versioned, &t));
    OK(dhow_tensor_get_info(t, &info));
    cr_assert_eq(info.strides[1], 2);
    cr_assert_geq(info.strides[0], 0);
    dhow_tensor_release(t);
    cr_assert_eq(p.deleted, 1);
}

/* Without CUDA in the context, memory that CUDA pinned is host memory. */
Test(dlpack, pinned_memory_of_cuda_is_taken_as_host_memory) {
    producer p;
    dhow_tensor *t;
    void *data;
    produce(&p);
    p.versioned.dl_tensor.device.device_type = kDLCUDAHost;
    OK(dhow_tensor_from_dlpack(g_context, &p.versioned, &t));
    OK(dhow_tensor_host_ptr(t, &data));
    cr_assert_eq(data, p.values);
    dhow_tensor_release(t);
}

Test(dlpack, an_export_refuses_what_it_cannot_show) {
    DLManagedTensorVersioned *m = (void *)g_context;
    dhow_tensor *t;
    uint64_t handle, offset;
    FAILS(DHOW_INVALID_ARGUMENT, dhow_tensor_to_dlpack(NULL, NULL, &m));
    cr_assert_null(m);
    OK(dhow_tensor_full(device_of("sim"), DHOW_F32, DHOW_SHAPE(4), 1, &t));
    FAILS(DHOW_UNSUPPORTED, dhow_tensor_to_dlpack(t, NULL, &m));
    SAYS("no device type for sim:0");
    dhow_tensor_release(t);
    OK(dhow_tensor_full(g_cpu, DHOW_F32, DHOW_SHAPE(4), 1, &t));
    FAILS(DHOW_INVALID_ARGUMENT, dhow_tensor_to_dlpack(t, NULL, NULL));
    FAILS(DHOW_INVALID_ARGUMENT, dhow_tensor_to_dlpack(t, (void *)(uintptr_t)1, &m));
    SAYS("a stream for a tensor in host memory");
    OK(dhow_tensor_native(t, &handle, &offset));
    FAILS(DHOW_INVALID_ARGUMENT, dhow_tensor_to_dlpack(t, NULL, &m));
    SAYS("exported");
    OK(dhow_tensor_native_done(t, NULL));
    dhow_tensor_release(t);
}

/* ---- order ---- */

/* A copy that arrives later than its call returns: the export waits for it, or does not where the
 * consumer says so. */
Test(dlpack, an_export_waits_for_work_on_its_way) {
    enum { COUNT = 1 << 16 };
    DLManagedTensorVersioned *m;
    dhow_tensor *there, *here;
    OK(dhow_tensor_full(device_of("sim"), DHOW_F32, DHOW_SHAPE(COUNT), 5, &there));
    OK(dhow_tensor_full(g_cpu, DHOW_F32, DHOW_SHAPE(COUNT), 0, &here));
    OK(dhow_copy_async(NULL, there, here, 0));
    OK(dhow_tensor_to_dlpack(here, DHOW_DLPACK_NO_SYNC, &m));
    m->deleter(m);
    OK(dhow_tensor_to_dlpack(here, NULL, &m));
    cr_assert_eq(((float *)m->dl_tensor.data)[COUNT - 1], 5);
    m->deleter(m);
    dhow_tensor_release(here);
    dhow_tensor_release(there);
}

/* The memory is the producer's again only when dhow's work with it is over. */
Test(dlpack, the_deleter_comes_after_work_that_uses_the_memory) {
    producer p;
    dhow_tensor *t, *there;
    float got[6];
    produce(&p);
    OK(dhow_tensor_from_dlpack(g_context, &p.versioned, &t));
    OK(dhow_tensor_full(device_of("sim"), DHOW_F32, DHOW_SHAPE(2, 3), 5, &there));
    OK(dhow_copy_async(NULL, there, t, 0));
    dhow_tensor_release(t);
    cr_assert_eq(p.deleted, 1);
    for (int i = 0; i < 6; i++) cr_assert_eq(p.values[i], 5);
    OK(dhow_tensor_read(there, got, sizeof got));
    dhow_tensor_release(there);
}
