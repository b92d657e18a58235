# gpemu_add_shim(<name>
#   SONAME <soname>              e.g. libcuda.so.1: one shared object for every CUDA, or
#   [CUDA11 <soname>] CUDA12 <soname> CUDA13 <soname>   one for each CUDA, from the same sources
#   [VERSIONED]                  the library's symbols carry its SONAME as their version, or
#   [SYMBOL_VERSION <name>]           this one
#   [NOT_SUPPORTED <enumerator>] what functions that are not supported return, a number of
#                                abi.hpp; none without it
#   SOURCES <file>...)
#
# Builds the shim whose symbols functions.def in the current folder lists, see shims/README.md.
# It lies in shims/{common,cuda11,cuda12,cuda13} of the build tree under its SONAME.
function(gpemu_add_shim name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "VERSIONED"
    "SONAME;CUDA11;CUDA12;CUDA13;SYMBOL_VERSION;NOT_SUPPORTED" "SOURCES")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "gpemu_add_shim(${name}): unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(arg_SONAME)
    gpemu_add_shim_library(gpemu_shim_${name} common ${arg_SONAME} "")
  endif()
  foreach(major IN ITEMS 11 12 13)
    if(arg_CUDA${major})
      gpemu_add_shim_library(gpemu_shim_${name}_${major} cuda${major} ${arg_CUDA${major}} ${major})
    endif()
  endforeach()
endfunction()

# Has a shim use the headers of the standard library that many shims include as compiled once for
# all. They are fewer than those of gpemu_share_common_headers: most files of a shim are small, and
# loading those would take longer than compiling the file.
function(gpemu_share_shim_headers target)
  if(NOT TARGET gpemu_shim_headers)
    set(empty "${PROJECT_BINARY_DIR}/shims/headers.cpp")
    file(CONFIGURE OUTPUT "${empty}" CONTENT "")
    add_library(gpemu_shim_headers OBJECT "${empty}")
    target_compile_features(gpemu_shim_headers PRIVATE cxx_std_23)
    target_link_libraries(gpemu_shim_headers PRIVATE gpemu_flags)
    set_target_properties(gpemu_shim_headers PROPERTIES
      CXX_EXTENSIONS OFF
      POSITION_INDEPENDENT_CODE ON
      CXX_VISIBILITY_PRESET hidden
      VISIBILITY_INLINES_HIDDEN ON)
    target_precompile_headers(gpemu_shim_headers PRIVATE
      <algorithm> <cstring> <memory> <mutex> <string> <unordered_map> <vector>)
  endif()
  target_precompile_headers(${target} REUSE_FROM gpemu_shim_headers)
endfunction()

# Makes one shared object of gpemu_add_shim, whose arg_... it reads.
function(gpemu_add_shim_library target folder soname major)
  set(functions "${CMAKE_CURRENT_SOURCE_DIR}/functions.def")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${functions}")
  set(generated "${CMAKE_CURRENT_BINARY_DIR}/${target}")
  gpemu_write_version_script("${functions}" "${major}" "${soname}" "${generated}.map")

  add_library(${target} SHARED ${arg_SOURCES})
  target_compile_features(${target} PRIVATE cxx_std_23)
  target_compile_definitions(${target} PRIVATE GPEMU_SHIM_SONAME="${soname}")
  if(major)
    target_compile_definitions(${target} PRIVATE GPEMU_CUDA_MAJOR=${major})
  endif()
  if(NOT "${arg_NOT_SUPPORTED}" STREQUAL "")
    configure_file("${PROJECT_SOURCE_DIR}/shims/common/not_supported.cpp.in"
      "${generated}.cpp" @ONLY)
    target_sources(${target} PRIVATE "${generated}.cpp")
  endif()
  target_include_directories(${target} PRIVATE
    "${CMAKE_CURRENT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/shims/common")
  target_link_libraries(${target} PRIVATE gpemu::capi gpemu_flags)
  gpemu_share_shim_headers(${target})
  # What several libraries have, each file for itself: it gives other meanings to the same names. A
  # release, as for modules.
  if(NOT CMAKE_BUILD_TYPE STREQUAL "Release")
    gpemu_compile_together(${target} 40)
  endif()
  set(common ${arg_SOURCES})
  list(FILTER common INCLUDE REGEX "/common/")
  set_source_files_properties(${common} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  # The loader binds a shim's calls to the shim itself, whatever else the process exports.
  target_link_options(${target} PRIVATE
    "LINKER:--version-script=${generated}.map" LINKER:-Bsymbolic)
  # A missing function is a link error. Clang leaves a sanitizer's functions to the program.
  if(NOT GPEMU_SANITIZE)
    target_link_options(${target} PRIVATE LINKER:-z,defs)
  endif()
  set_target_properties(${target} PROPERTIES
    PREFIX "" OUTPUT_NAME "${soname}" SUFFIX ""
    LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/shims/${folder}"
    BUILD_RPATH_USE_ORIGIN ON
    INSTALL_RPATH "$ORIGIN/../../.."
    CXX_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    LINK_DEPENDS "${generated}.map")
  if(GPEMU_INSTALL)
    install(TARGETS ${target}
      LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/gpemu/shims/${folder}")
  endif()
  set_property(GLOBAL APPEND PROPERTY GPEMU_SHIMS ${target})
  if(GPEMU_BUILD_TESTS)
    add_test(NAME shims.symbols.${folder}.${soname}
      COMMAND Python3::Interpreter "${PROJECT_SOURCE_DIR}/tests/shims/check_symbols.py"
              "$<TARGET_FILE:${target}>" "${functions}" "${major}")
    set_tests_properties(shims.symbols.${folder}.${soname} PROPERTIES LABELS shims)
    add_test(NAME shims.bad_arguments.${folder}.${soname}
      COMMAND Python3::Interpreter "${PROJECT_SOURCE_DIR}/tests/shims/check_null_arguments.py"
              "$<TARGET_FILE:${target}>" "${functions}" "${major}")
    set_tests_properties(shims.bad_arguments.${folder}.${soname} PROPERTIES LABELS shims)
    if(NOT "${arg_NOT_SUPPORTED}" STREQUAL "")
      add_test(NAME shims.unsupported.${folder}.${soname}
        COMMAND Python3::Interpreter "${PROJECT_SOURCE_DIR}/tests/shims/check_unsupported.py"
                "$<TARGET_FILE:${target}>" "${functions}" "${arg_NOT_SUPPORTED}" "${major}")
      set_tests_properties(shims.unsupported.${folder}.${soname} PROPERTIES LABELS shims)
    endif()
  endif()
endfunction()

# Writes the version script that exports what functions.def lists for a CUDA major (or for all).
function(gpemu_write_version_script functions major soname file)
  file(STRINGS "${functions}" lines REGEX "^(IMPLEMENTED|NOT_SUPPORTED)")
  set(symbols "")
  foreach(line IN LISTS lines)
    if(NOT line MATCHES "^(IMPLEMENTED|NOT_SUPPORTED)(_11|_12|_13)?\\(([A-Za-z0-9_]+)\\)$")
      message(FATAL_ERROR "${functions}: this line is not understood: ${line}")
    endif()
    set(only "${CMAKE_MATCH_2}")
    # What CUDA 12 has alone, CUDA 13 dropped: CUDA 11 has it, too.
    if(only STREQUAL "" OR only STREQUAL "_${major}" OR (only STREQUAL "_12" AND major EQUAL 11))
      string(APPEND symbols "    ${CMAKE_MATCH_3};\n")
    endif()
  endforeach()
  set(node "")
  if(arg_VERSIONED)
    set(node "${soname} ")
  elseif(arg_SYMBOL_VERSION)
    set(node "${arg_SYMBOL_VERSION} ")
  endif()
  file(CONFIGURE OUTPUT "${file}"
    CONTENT "@node@{\n  global:\n@symbols@  local:\n    *;\n};\n" @ONLY)
endfunction()
