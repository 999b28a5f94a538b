# SPDX-License-Identifier: Apache-2.0
#
# libdhow.a: the library with the plugins inside, for programs that are to be one file. A plugin is joined into one object of
# which only its table is visible, so that no two of them meet in a name. Built for the tests, too; installed with DHOW_STATIC.
# Target: dhow_static
set(DHOW_STATIC_PLUGINS "cpu;opencl;cuda" CACHE STRING "the plugins in libdhow.a, as far as they are built")

# What a program links besides, for the exported target and pkg-config --static.
set(libraries jansson ${OpenMP_C_LIB_NAMES} pthread dl rt m)
list(REMOVE_DUPLICATES libraries)
set(DHOW_STATIC_LIBS)
foreach(library ${libraries})
  string(APPEND DHOW_STATIC_LIBS " -l${library}")
endforeach()
if(NOT DHOW_STATIC AND (NOT DHOW_TESTS OR NOT CMAKE_OBJCOPY OR DHOW_SANITIZE OR CMAKE_C_FLAGS MATCHES "-fsanitize"))
  return()
endif()
if(NOT CMAKE_OBJCOPY)
  message(FATAL_ERROR "DHOW_STATIC: objcopy was not found; install binutils")
endif()

# dhow_join_plugin(NAME TARGETS... ARCHIVES...): one object of the targets' objects and what they use of the archives.
function(dhow_join_plugin name)
  cmake_parse_arguments(join "" "" "TARGETS;ARCHIVES" ${ARGN})
  set(objects)
  foreach(target ${join_TARGETS})
    list(APPEND objects $<TARGET_OBJECTS:${target}>)
  endforeach()
  set(out ${PROJECT_BINARY_DIR}/static/plugin_${name}.o)
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/static
    COMMAND ${CMAKE_LINKER} -r -o ${out}.joined ${objects} ${join_ARCHIVES}
    COMMAND ${CMAKE_OBJCOPY} --redefine-sym dhow_plugin_v1=dhow_built_in_${name} ${out}.joined
    COMMAND ${CMAKE_OBJCOPY} --keep-global-symbol=dhow_built_in_${name} ${out}.joined ${out}
    COMMAND ${CMAKE_COMMAND} -E rm ${out}.joined
    DEPENDS ${objects} ${join_ARCHIVES}
    COMMENT "static: plugin ${name}"
    COMMAND_EXPAND_LISTS VERBATIM)
  set_source_files_properties(${out} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  set(joined ${joined} ${join_TARGETS} PARENT_SCOPE)
endfunction()

set(plugin_objects)
set(joined) # targets
set(built_in)
foreach(plugin ${DHOW_STATIC_PLUGINS})
  if(NOT TARGET dhow_${plugin})
    continue()
  endif()
  if(plugin STREQUAL "cpu")
    get_target_property(vectors dhow_cpu DHOW_VECTORS)
    dhow_join_plugin(cpu TARGETS dhow_cpu ${vectors} ARCHIVES $<TARGET_FILE:dhow_kernels_cpu>)
  elseif(plugin STREQUAL "cuda")
    dhow_join_plugin(cuda TARGETS dhow_cuda dhow_cuda_objects ARCHIVES ${DHOW_CUDA_CUDART})
  elseif(plugin STREQUAL "sim")
    dhow_join_plugin(sim TARGETS dhow_sim ARCHIVES $<TARGET_FILE:dhow_simdev> $<TARGET_FILE:dhow_kernels_cpu>)
  else()
    dhow_join_plugin(${plugin} TARGETS dhow_${plugin})
  endif()
  list(APPEND plugin_objects ${PROJECT_BINARY_DIR}/static/plugin_${plugin}.o)
  string(APPEND built_in "X(${plugin})")
endforeach()

add_library(dhow_static STATIC ${PROJECT_SOURCE_DIR}/core/plugin/built_in.c
  $<FILTER:$<TARGET_OBJECTS:dhow_core>,EXCLUDE,/built_in\\.c> $<TARGET_OBJECTS:dhow_kernels_core> ${plugin_objects})
add_dependencies(dhow_static ${joined}) # make has no rules for objects of other folders: they must be there before
set_source_files_properties(${PROJECT_SOURCE_DIR}/core/plugin/built_in.c PROPERTIES COMPILE_DEFINITIONS "DHOWI_BUILT_IN=${built_in}")
target_include_directories(dhow_static PRIVATE ${PROJECT_SOURCE_DIR}/core PUBLIC
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(dhow_static INTERFACE ${libraries})
set_target_properties(dhow_static PROPERTIES
  OUTPUT_NAME dhow C_VISIBILITY_PRESET hidden POSITION_INDEPENDENT_CODE ON
  ARCHIVE_OUTPUT_DIRECTORY ${DHOW_LIBRARY_OUTPUT_DIR})

set(component development)
set(unless_asked)
if(NOT DHOW_STATIC) # the tests install it by its component
  set(component static)
  set(unless_asked EXCLUDE_FROM_ALL)
endif()
install(TARGETS dhow_static EXPORT dhow-static-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component} ${unless_asked})
install(EXPORT dhow-static-targets NAMESPACE dhow:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/dhow COMPONENT ${component} ${unless_asked})
