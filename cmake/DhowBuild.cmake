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

if(DHOW_SANITIZE)
  add_compile_options(-fsanitize=${DHOW_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${DHOW_SANITIZE})
  if(DHOW_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()
