# SPDX-License-Identifier: Apache-2.0
# How everything of ours is compiled: target dhow_warnings, sanitizers.

add_library(dhow_warnings INTERFACE)
target_compile_options(dhow_warnings INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wshadow)
if(DHOW_WERROR)
  target_compile_options(dhow_warnings INTERFACE -Werror)
endif()

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)

# Tables are full of pointers, whose relocations take 24 bytes each in the old format; the loader knows the new one since
# glibc 2.36.
include(CheckCSourceCompiles)
include(CheckLinkerFlag)
check_c_source_compiles("#include <features.h>
#if !__GLIBC_PREREQ(2, 36)
#error old
#endif
int main(void) { return 0; }" DHOW_HAVE_GLIBC_2_36)
check_linker_flag(C -Wl,-z,pack-relative-relocs DHOW_HAVE_PACKED_RELOCATIONS)
function(dhow_pack_relocations target)
  if(DHOW_HAVE_GLIBC_2_36 AND DHOW_HAVE_PACKED_RELOCATIONS)
    target_link_options(${target} PRIVATE -Wl,-z,pack-relative-relocs)
  endif()
endfunction()

if(DHOW_SANITIZE)
  add_compile_options(-fsanitize=${DHOW_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${DHOW_SANITIZE})
  if(DHOW_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()
