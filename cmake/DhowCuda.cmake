# SPDX-License-Identifier: Apache-2.0
# Finds what the CUDA plugin is built from: DHOW_CUDA_INCLUDE_DIR, DHOW_CUDA_CUDART (the static runtime), DHOW_CUDA_NVCC.
# DHOW_CUDA_MISSING says what is not there and how to get it; empty when the plugin can be built. nvcc is optional.
#
# A toolkit is looked for where CUDAToolkit_ROOT, CUDA_HOME or CUDA_PATH say, then under build/deps (NVIDIA's wheels, see
# scripts/setup --cuda), in PATH, and in the usual places.

set(DHOW_CUDA AUTO CACHE STRING "Build the CUDA plugin: AUTO, ON or OFF")
set_property(CACHE DHOW_CUDA PROPERTY STRINGS AUTO ON OFF)
if(NOT DHOW_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "DHOW_CUDA is '${DHOW_CUDA}': it may be AUTO, ON or OFF")
endif()
set(DHOW_CUDA_MISSING "switched off by DHOW_CUDA")
if(DHOW_CUDA STREQUAL "OFF")
  return()
endif()

# Wheels of CUDA 13 share one folder; of those of CUDA 12 the runtime's has headers and libcudart_static.a, and no nvcc.
set(wheels)
foreach(deps ${PROJECT_SOURCE_DIR}/build/deps/nvidia ${PROJECT_BINARY_DIR}/deps/nvidia)
  file(GLOB found ${deps}/cu[0-9]* ${deps}/cuda_runtime)
  list(APPEND wheels ${found})
endforeach()
set(dhow_cuda_roots ${CUDAToolkit_ROOT})
if(NOT dhow_cuda_roots)
  set(dhow_cuda_roots $ENV{CUDAToolkit_ROOT} $ENV{CUDA_HOME} $ENV{CUDA_PATH})
endif()
if(NOT dhow_cuda_roots) # who names a toolkit wants that one
  set(dhow_cuda_roots ${wheels} /usr/local/cuda /opt/cuda /usr/lib/cuda /usr)
endif()
find_path(DHOW_CUDA_INCLUDE_DIR cuda_runtime_api.h PATHS ${dhow_cuda_roots} PATH_SUFFIXES include NO_DEFAULT_PATH)
find_library(DHOW_CUDA_CUDART NAMES libcudart_static.a PATHS ${dhow_cuda_roots}
  PATH_SUFFIXES lib64 lib targets/x86_64-linux/lib lib/x86_64-linux-gnu NO_DEFAULT_PATH)
find_program(DHOW_CUDA_NVCC nvcc PATHS ${dhow_cuda_roots} PATH_SUFFIXES bin NO_DEFAULT_PATH)
mark_as_advanced(DHOW_CUDA_INCLUDE_DIR DHOW_CUDA_CUDART DHOW_CUDA_NVCC)

set(DHOW_CUDA_MISSING "")
if(NOT DHOW_CUDA_INCLUDE_DIR)
  set(DHOW_CUDA_MISSING "no CUDA toolkit found (cuda_runtime_api.h); install it, name its folder in CUDAToolkit_ROOT, or run scripts/setup --cuda")
elseif(NOT DHOW_CUDA_CUDART)
  set(DHOW_CUDA_MISSING "libcudart_static.a not found beside ${DHOW_CUDA_INCLUDE_DIR}; install cuda-cudart-dev, or run scripts/setup --cuda")
else()
  file(STRINGS ${DHOW_CUDA_INCLUDE_DIR}/cuda_runtime_api.h version REGEX "^#define CUDART_VERSION ")
  string(REGEX REPLACE ".* ([0-9]+).*" "\\1" DHOW_CUDA_VERSION_NUMBER "${version}")
  if(DHOW_CUDA_VERSION_NUMBER LESS 12080)
    set(DHOW_CUDA_MISSING "the CUDA toolkit in ${DHOW_CUDA_INCLUDE_DIR} is older than 12.8; install a newer one, or run scripts/setup --cuda")
  endif()
endif()

# A compiler that is there and does not work - an unsupported host compiler, say - is as good as none, and says why.
if(NOT DHOW_CUDA_MISSING AND DHOW_CUDA_NVCC AND NOT DEFINED DHOW_CUDA_NVCC_WORKS)
  file(WRITE ${PROJECT_BINARY_DIR}/CMakeFiles/dhow_nvcc.cu "extern \"C\" __global__ void nothing(void) {}\n")
  execute_process(COMMAND ${DHOW_CUDA_NVCC} --fatbin -arch=sm_80 -o ${PROJECT_BINARY_DIR}/CMakeFiles/dhow_nvcc.fatbin
                          ${PROJECT_BINARY_DIR}/CMakeFiles/dhow_nvcc.cu
                  RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(failed)
    string(STRIP "${said}" said)
    message(STATUS "CUDA plugin: ${DHOW_CUDA_NVCC} does not work here, kernels are left to NVRTC: ${said}")
    set(DHOW_CUDA_NVCC_WORKS OFF CACHE INTERNAL "")
  else()
    set(DHOW_CUDA_NVCC_WORKS ON CACHE INTERNAL "")
  endif()
endif()

# How nvcc compresses fat binaries: what it makes for "size" is read by drivers of CUDA 12.4 and later alone, and a plugin
# built with CUDA 12 is to run on R525. One built with CUDA 13 needs R580 anyway.
function(dhow_cuda_compression version out)
  set(flags)
  if(version GREATER_EQUAL 13000)
    set(flags -compress-mode=size)
  endif()
  set(${out} ${flags} PARENT_SCOPE)
endfunction()

# Compute capabilities of the GPUs here that nvcc knows, in rising order; empty where there is none.
function(dhow_cuda_native_architectures out)
  set(said)
  find_program(DHOW_NVIDIA_SMI nvidia-smi)
  mark_as_advanced(DHOW_NVIDIA_SMI)
  if(DHOW_NVIDIA_SMI)
    execute_process(COMMAND ${DHOW_NVIDIA_SMI} --query-gpu=compute_cap --format=csv,noheader OUTPUT_VARIABLE said ERROR_QUIET)
  endif()
  string(REGEX MATCHALL "[0-9]+\\.[0-9]" capabilities "${said}")
  string(REPLACE "." "" capabilities "${capabilities}")
  list(REMOVE_DUPLICATES capabilities)
  list(SORT capabilities COMPARE NATURAL)
  list(FILTER capabilities EXCLUDE REGEX "^([0-6][0-9]|7[0-4])$")
  set(${out} ${capabilities} PARENT_SCOPE)
endfunction()
