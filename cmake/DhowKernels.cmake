# SPDX-License-Identifier: Apache-2.0
# Compiles kernels/*.k for the CPU and generates their tables.
#
# clang is preferred, whatever compiles the rest: it vectorises the kernels better at AVX-512.

find_program(DHOW_KERNEL_CC NAMES clang clang-19 clang-18 clang-17 clang-16 clang-15 clang-14
             DOC "compiler of the portable kernels")
if(NOT DHOW_KERNEL_CC)
  set(DHOW_KERNEL_CC ${CMAKE_C_COMPILER})
endif()
execute_process(COMMAND ${DHOW_KERNEL_CC} --version OUTPUT_VARIABLE dhow_kernel_cc_version ERROR_QUIET)

set(DHOW_KERNEL_TABLE_SCRIPT ${CMAKE_CURRENT_LIST_DIR}/kernel_table.sh)
get_filename_component(DHOW_KERNEL_ROOT ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)
if(NOT DHOW_KERNEL_INCLUDE) # the installed package says where its headers are
  set(DHOW_KERNEL_INCLUDE ${DHOW_KERNEL_ROOT}/include)
endif()

# Infinities and NaN stay; what the flags give up is errno, traps and the order of sums.
set(DHOW_KERNEL_FLAGS -x c -std=c11 -fPIC -fvisibility=hidden -fno-math-errno -fno-trapping-math
    -ffp-contract=fast -fwrapv -fno-asynchronous-unwind-tables
    -Wno-tautological-compare -I${DHOW_KERNEL_INCLUDE})
if(dhow_kernel_cc_version MATCHES "clang")
  # Vectorised epilogues add a third to the code and nothing to long rows.
  list(APPEND DHOW_KERNEL_FLAGS -fno-unroll-loops -Wno-pass-failed -mllvm -enable-epilogue-vectorization=false)
  if(CMAKE_CROSSCOMPILING AND NOT DHOW_KERNEL_CC STREQUAL CMAKE_C_COMPILER) # clang compiles for every machine
    execute_process(COMMAND ${CMAKE_C_COMPILER} -dumpmachine OUTPUT_VARIABLE machine OUTPUT_STRIP_TRAILING_WHITESPACE)
    list(APPEND DHOW_KERNEL_FLAGS --target=${machine})
  endif()
endif()
set(DHOW_KERNEL_EXTRA_FLAGS "" CACHE STRING "more flags for the portable kernels, e.g. a sanitizer")

if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
  set(DHOW_KERNEL_ISAS v2 v3 v4)
else()
  set(DHOW_KERNEL_ISAS base)
endif()

# x86-64-v2 means processors of before 2013 and cautious virtual machines: f32 runs at full speed there, other types get
# half the code.
function(dhow_kernel_isa_flags isa type out)
  set(flags -DK_ISA=${isa})
  if(isa STREQUAL "v2" AND NOT type STREQUAL "f32" AND NOT type STREQUAL "")
    list(APPEND flags -Os -fno-openmp-simd -fno-tree-vectorize -fno-tree-slp-vectorize)
  else()
    list(APPEND flags -O2 -fopenmp-simd)
  endif()
  if(isa MATCHES "^v[234]$")
    list(APPEND flags -march=x86-64-${isa})
  endif()
  if(isa STREQUAL "v4")
    list(APPEND flags -mprefer-vector-width=512)
  endif()
  set(${out} ${flags} PARENT_SCOPE)
endfunction()

# dhow_compile_kernel(<out variable> <file.k> <type> <isa> [NAME <name of the object>] [flag...]) appends the object's
# path to the variable. The type, T of the text, may be empty.
function(dhow_compile_kernel out file type isa)
  cmake_parse_arguments(PARSE_ARGV 4 arg "" "NAME" "")
  get_filename_component(unit ${file} NAME_WE)
  set(name ${unit}.${type})
  set(type_flag)
  if(arg_NAME)
    set(name ${arg_NAME})
  endif()
  if(type)
    set(type_flag -DT=${type})
  endif()
  set(object ${CMAKE_CURRENT_BINARY_DIR}/kernels/${name}.${isa}.o)
  file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/kernels)
  dhow_kernel_isa_flags(${isa} "${type}" isa_flags)
  get_filename_component(folder ${file} DIRECTORY)
  file(GLOB beside ${folder}/*.h) # what the text may include
  add_custom_command(
    OUTPUT ${object}
    COMMAND ${DHOW_KERNEL_CC} ${DHOW_KERNEL_FLAGS} ${isa_flags} ${type_flag} ${arg_UNPARSED_ARGUMENTS}
            ${DHOW_KERNEL_EXTRA_FLAGS} -include ${DHOW_KERNEL_INCLUDE}/dhow/kernel/k.h -c ${file} -o ${object}
    DEPENDS ${file} ${DHOW_KERNEL_INCLUDE}/dhow/kernel/k.h ${beside}
    COMMENT "kernels: ${name} ${isa}"
    VERBATIM)
  set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  set(${out} ${${out}} ${object} PARENT_SCOPE)
endfunction()

# dhow_kernel_table(<out.c> core|isas [argument...]) generates a table of the built-in units.
function(dhow_kernel_table out mode)
  file(GLOB texts CONFIGURE_DEPENDS ${DHOW_KERNEL_ROOT}/kernels/*.k ${DHOW_KERNEL_ROOT}/kernels/*.h)
  add_custom_command(
    OUTPUT ${out}
    COMMAND sh ${DHOW_KERNEL_TABLE_SCRIPT} ${mode} ${out} ${CMAKE_C_COMPILER} ${DHOW_KERNEL_ROOT}/include
            ${DHOW_KERNEL_ROOT}/kernels ${ARGN}
    DEPENDS ${DHOW_KERNEL_TABLE_SCRIPT} ${DHOW_KERNEL_ROOT}/include/dhow/kernel/k.h ${texts}
    COMMENT "kernels: table for ${mode}"
    VERBATIM)
endfunction()

# dhow_nvcc_kernels(<out variable> <nvcc> <folder> <ending> <flag>...) has nvcc compile each built-in unit and type with
# indices of 32 and of 64 bits; the variable gets <folder>/<unit>.<type>.<bits>.<ending> of all.
function(dhow_nvcc_kernels out nvcc folder ending)
  get_property(units GLOBAL PROPERTY DHOW_KERNEL_UNITS)
  file(GLOB beside ${DHOW_KERNEL_ROOT}/kernels/*.h)
  set(made)
  foreach(entry ${units})
    string(REPLACE ":" ";" parts ${entry})
    list(GET parts 0 unit)
    list(GET parts 1 type)
    foreach(bits 32 64)
      set(file ${folder}/${unit}.${type}.${bits}.${ending})
      set(index)
      if(bits EQUAL 64)
        set(index -DK_IDX64)
      endif()
      add_custom_command(OUTPUT ${file}
        COMMAND ${nvcc} -x cu --${ending} -std=c++17 -diag-suppress=68,177,186 ${ARGN} -DT=${type} ${index}
                -I${DHOW_KERNEL_INCLUDE} ${DHOW_KERNEL_ROOT}/kernels/${unit}.k -o ${file}
        DEPENDS ${DHOW_KERNEL_ROOT}/kernels/${unit}.k ${beside} ${DHOW_KERNEL_INCLUDE}/dhow/kernel/k.h
        COMMENT "kernels: ${ending} of ${unit} ${type} ${bits}"
        VERBATIM)
      list(APPEND made ${file})
    endforeach()
  endforeach()
  set(${out} ${made} PARENT_SCOPE)
endfunction()
