# SPDX-License-Identifier: Apache-2.0
# The conformance table as a library: for dhow-conform, and for the tests.
set(here ${CMAKE_CURRENT_LIST_DIR})
set(conformance_sources abi.c alloc.c arrange.c arrays.c blas.c cases.c coll.c conv.c conv_bytes.c packed_forms.c copy.c create.c devices.c elementwise.c error.c functions.c graph.c huge.c kernel.c
    launch.c layers.c memory.c models.c ops.c order.c reductions.c rows.c scalars.c shutdown.c slots.c slot_work.c stream.c support.c threads.c training.c transfer.c vendor.c ../unit/onnx_writer.c)
list(TRANSFORM conformance_sources PREPEND ${here}/)
add_library(dhow_conformance STATIC ${conformance_sources} $<TARGET_OBJECTS:dhow_kernels_core>)
target_compile_definitions(dhow_conformance PRIVATE _GNU_SOURCE)
target_include_directories(dhow_conformance PUBLIC ${here} PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(dhow_conformance PUBLIC dhow PRIVATE dhow_warnings Threads::Threads ${CMAKE_DL_LIBS} m)
