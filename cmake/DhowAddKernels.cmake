# SPDX-License-Identifier: Apache-2.0
# dhow_add_kernels(<target> <file.k> [NAME <name>] [TYPE <f32|f16|...>] [OPTIONS <-D...>...])
#
# Compiles the kernels of a text in the dialect of dhow/kernel/k.h with the program: for the instruction sets of the CPU
# plugin and, where nvcc is found, as fat binaries for CUDA. OpenCL devices compile the text, which travels along; so does
# everything else that cannot use what is there. The target gets a header <name>.h with `const dhow_module_source <name>`
# for dhow_module_build(). <name> is <file>_kernels unless given; TYPE is T of the text.
#
# DHOW_KERNEL_NVCC            nvcc, found in PATH and the usual places; OFF leaves CUDA to NVRTC
# DHOW_KERNEL_ARCHITECTURES   compute capabilities, 75 80 90 100 120
include_guard(GLOBAL)
include(${CMAKE_CURRENT_LIST_DIR}/DhowKernels.cmake)
set(DHOW_ADD_KERNELS_SCRIPT ${CMAKE_CURRENT_LIST_DIR}/add_kernels.sh)
set(DHOW_KERNEL_ARCHITECTURES 75 80 90 100 120 CACHE STRING "compute capabilities that a program's kernels are compiled for")
find_program(DHOW_KERNEL_NVCC nvcc PATHS ${CUDAToolkit_ROOT} $ENV{CUDA_HOME} $ENV{CUDA_PATH} /usr/local/cuda /opt/cuda
             PATH_SUFFIXES bin DOC "compiles a program's kernels for CUDA")

# dhow_kernel_fatbin(<out variable> <file.k> <name> <32|64> [flag...]) appends the path of the fat binary.
function(dhow_kernel_fatbin out file name bits)
  set(fatbin ${CMAKE_CURRENT_BINARY_DIR}/kernels/${name}.${bits}.fatbin)
  list(GET DHOW_KERNEL_ARCHITECTURES 0 oldest)
  set(codes -gencode=arch=compute_${oldest},code=compute_${oldest}) # for what comes after
  foreach(arch ${DHOW_KERNEL_ARCHITECTURES})
    list(APPEND codes -gencode=arch=compute_${arch},code=sm_${arch})
  endforeach()
  set(index)
  if(bits EQUAL 64)
    set(index -DK_IDX64)
  endif()
  add_custom_command(OUTPUT ${fatbin}
    COMMAND ${DHOW_KERNEL_NVCC} -x cu --fatbin -std=c++17 ${codes} -diag-suppress=68,177,186 ${index} ${ARGN}
            -I${DHOW_KERNEL_INCLUDE} -include ${DHOW_KERNEL_INCLUDE}/dhow/kernel/k.h ${file} -o ${fatbin}
    DEPENDS ${file}
    COMMENT "kernels: ${name} cuda ${bits}"
    VERBATIM)
  set(${out} ${${out}} ${fatbin} PARENT_SCOPE)
endfunction()

function(dhow_add_kernels target file)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "NAME;TYPE" "OPTIONS")
  get_filename_component(file ${file} ABSOLUTE)
  get_filename_component(stem ${file} NAME_WE)
  set(name ${stem}_kernels)
  if(arg_NAME)
    set(name ${arg_NAME})
  endif()
  set(options ${arg_OPTIONS})
  if(arg_TYPE)
    list(PREPEND options -DT=${arg_TYPE})
  endif()
  set(objects)
  foreach(isa ${DHOW_KERNEL_ISAS})
    dhow_compile_kernel(objects ${file} "${arg_TYPE}" ${isa} NAME ${name} ${arg_OPTIONS})
  endforeach()
  set(three ${DHOW_KERNEL_ISAS})
  list(LENGTH three count)
  if(count EQUAL 1)
    set(three ${three} ${three} ${three})
  endif()
  string(REPLACE ";" "," three "${three}")
  set(fatbins)
  if(DHOW_KERNEL_NVCC)
    foreach(bits 32 64)
      dhow_kernel_fatbin(fatbins ${file} ${name} ${bits} ${options})
    endforeach()
  endif()
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/kernels/${target})
  file(MAKE_DIRECTORY ${folder})
  string(REPLACE ";" " " words "${options}")
  add_custom_command(OUTPUT ${folder}/${name}.c ${folder}/${name}.h
    COMMAND sh ${DHOW_ADD_KERNELS_SCRIPT} ${folder}/${name} ${name} ${file} ${DHOW_KERNEL_CC} ${DHOW_KERNEL_INCLUDE} ${three}
            "${words}" ${fatbins}
    DEPENDS ${file} ${DHOW_ADD_KERNELS_SCRIPT} ${fatbins}
    COMMENT "kernels: ${name}"
    VERBATIM)
  target_sources(${target} PRIVATE ${folder}/${name}.c ${folder}/${name}.h ${objects})
  target_include_directories(${target} PRIVATE ${folder})
endfunction()
