# SPDX-License-Identifier: Apache-2.0
# Headers, library, plugins, tools; find_package(dhow) and pkg-config dhow.
include(CMakePackageConfigHelpers)

install(TARGETS dhow EXPORT dhow-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/dhow DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
install(EXPORT dhow-targets NAMESPACE dhow:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/dhow COMPONENT development)

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/dhow-config.cmake.in ${PROJECT_BINARY_DIR}/dhow-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/dhow
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR DHOW_PLUGIN_INSTALL_DIR)
# Before 1.0 each minor version may change what programs see.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/dhow-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/dhow-config.cmake ${PROJECT_BINARY_DIR}/dhow-config-version.cmake
  ${PROJECT_SOURCE_DIR}/cmake/DhowAddKernels.cmake ${PROJECT_SOURCE_DIR}/cmake/DhowKernels.cmake
  ${PROJECT_SOURCE_DIR}/cmake/add_kernels.sh
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/dhow COMPONENT development)

# The file says where it lies itself, so that the tree may be moved.
file(RELATIVE_PATH DHOW_PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(${PROJECT_SOURCE_DIR}/cmake/dhow.pc.in ${PROJECT_BINARY_DIR}/dhow.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/dhow.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)

# What people read: manual pages, documents, examples, the licence.
install(FILES ${PROJECT_SOURCE_DIR}/docs/man/devinfo.1 ${PROJECT_SOURCE_DIR}/docs/man/dhow-run.1
  ${PROJECT_SOURCE_DIR}/docs/man/dhow-conform.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT runtime)
install(FILES ${PROJECT_SOURCE_DIR}/docs/man/dhow.7 DESTINATION ${CMAKE_INSTALL_MANDIR}/man7 COMPONENT runtime)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/CHANGELOG.md ${PROJECT_SOURCE_DIR}/README.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs COMPONENT development
  FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN man EXCLUDE PATTERN reference EXCLUDE)
# What documents link to.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/bench/results DESTINATION ${CMAKE_INSTALL_DOCDIR}/bench COMPONENT development)
install(FILES ${PROJECT_SOURCE_DIR}/tests/python/dhow_dlpack.py DESTINATION ${CMAKE_INSTALL_DOCDIR}/tests/python COMPONENT development)
# The reference is made on request: cmake --build build --target reference, before the installation.
if(DHOW_DOXYGEN)
  add_custom_target(reference COMMAND sh ${PROJECT_SOURCE_DIR}/docs/reference/make.sh ${PROJECT_SOURCE_DIR} ${PROJECT_VERSION}
    ${PROJECT_BINARY_DIR}/reference VERBATIM COMMENT "reference: ${PROJECT_BINARY_DIR}/reference/index.html")
endif()
install(DIRECTORY ${PROJECT_BINARY_DIR}/reference DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT development OPTIONAL)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT development)

# Simulated devices, for programs that are to be tried with several: cmake --install build --component simulated
if(TARGET dhow_sim)
  install(TARGETS dhow_sim LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/dhow/sim COMPONENT simulated EXCLUDE_FROM_ALL)
endif()

add_custom_target(uninstall COMMAND ${CMAKE_COMMAND} -DMANIFEST=${PROJECT_BINARY_DIR}/install_manifest.txt
  -P ${PROJECT_SOURCE_DIR}/cmake/DhowUninstall.cmake VERBATIM)
