# SPDX-License-Identifier: Apache-2.0
# Removes what the last installation listed in MANIFEST.
if(NOT EXISTS ${MANIFEST})
  message(FATAL_ERROR "there is no ${MANIFEST}: nothing was installed from this build")
endif()
file(STRINGS ${MANIFEST} files)
foreach(file ${files})
  message(STATUS "removing $ENV{DESTDIR}${file}")
  file(REMOVE "$ENV{DESTDIR}${file}")
endforeach()
