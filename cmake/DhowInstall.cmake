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
write_basic_package_version_file(${PROJECT_BINARY_DIR}/dhow-config-version.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/dhow-config.cmake ${PROJECT_BINARY_DIR}/dhow-config-version.cmake
  ${PROJECT_SOURCE_DIR}/cmake/DhowAddKernels.cmake ${PROJECT_SOURCE_DIR}/cmake/DhowKernels.cmake
  ${PROJECT_SOURCE_DIR}/cmake/add_kernels.sh
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/dhow COMPONENT development)

# The file says where it lies itself, so that the tree may be moved.
file(RELATIVE_PATH DHOW_PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(${PROJECT_SOURCE_DIR}/cmake/dhow.pc.in ${PROJECT_BINARY_DIR}/dhow.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/dhow.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
