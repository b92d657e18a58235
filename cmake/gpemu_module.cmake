# Every executable of unit tests, for builds that run only those.
if(GPEMU_BUILD_TESTS)
  add_custom_target(gpemu_unit_tests)
endif()

# Adds the tests of an executable to CTest, label "unit": each as <prefix>.<Suite>.<Test>, in a
# process of its own. That takes longer than most tests, above all with a sanitizer: there, one
# process runs them all, and ten those of the module device, which fork: in a process that has run
# many, that is slow.
# With ONE_THREAD, ThreadSanitizer would find nothing: there they are not built, and elsewhere a
# second thread ends them. With NO_TSAN they are not built there either, though they start threads:
# the caller says why ThreadSanitizer would find nothing that it does not find in other tests.
function(gpemu_discover_unit_tests target prefix)
  cmake_parse_arguments(PARSE_ARGV 2 arg "ONE_THREAD;NO_TSAN" "" "")
  if(NOT GPEMU_UNIT_TESTS OR ((arg_ONE_THREAD OR arg_NO_TSAN) AND GPEMU_SANITIZE STREQUAL thread))
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
    return()
  endif()
  if(arg_ONE_THREAD)
    target_link_libraries(${target} PRIVATE gpemu_one_thread)
  endif()
  add_dependencies(gpemu_unit_tests ${target})
  # The preset dev optimises the tested code; tests themselves take longer to optimise than to run.
  target_compile_options(${target} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O0>)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  if(GPEMU_SANITIZE)
    set(processes 1)
    if(prefix STREQUAL device)
      set(processes 10)
    endif()
    foreach(process RANGE 1 ${processes})
      math(EXPR index "${process} - 1")
      add_test(NAME ${target}.${process} COMMAND ${target} --gtest_brief=1)
      set_tests_properties(${target}.${process} PROPERTIES LABELS unit
        ENVIRONMENT "GTEST_TOTAL_SHARDS=${processes};GTEST_SHARD_INDEX=${index}")
    endforeach()
  else()
    gtest_discover_tests(${target} TEST_PREFIX "${prefix}." PROPERTIES LABELS unit
      DISCOVERY_TIMEOUT 60)
  endif()
endfunction()

# The headers that nearly every file includes.
set(GPEMU_COMMON_HEADERS
  <algorithm> <array> <filesystem> <functional> <map> <memory> <mutex> <optional> <set> <string>
  <vector> <fmt/format.h> "${PROJECT_SOURCE_DIR}/include/gpemu/base/error.hpp"
  "${PROJECT_SOURCE_DIR}/include/gpemu/base/units.hpp")

# Makes the tests of a module share these and GoogleTest's header, precompiled, which are half of a
# test's compile time. All tests have the same flags. The preset tidy does not do this, so it finds
# headers that a test forgets.
function(gpemu_share_test_header target)
  get_property(first GLOBAL PROPERTY GPEMU_FIRST_UNIT_TESTS)
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    target_precompile_headers(${target} PRIVATE <gtest/gtest.h> ${GPEMU_COMMON_HEADERS})
    set_property(GLOBAL PROPERTY GPEMU_FIRST_UNIT_TESTS ${target})
  endif()
endfunction()

# Has a target of this project use the common headers as the module base compiles them once: they
# are half of what a file takes to compile. All have the same flags. The preset tidy does not, and
# so sees which headers a file forgets.
function(gpemu_share_common_headers target)
  if(target STREQUAL gpemu_base)
    target_precompile_headers(gpemu_base PRIVATE ${GPEMU_COMMON_HEADERS})
  else()
    target_precompile_headers(${target} REUSE_FROM gpemu_base)
    # A target that does not link the module takes them from here.
    target_compile_definitions(${target} PRIVATE
      $<TARGET_PROPERTY:gpemu_base,INTERFACE_COMPILE_DEFINITIONS>)
  endif()
endfunction()

# Compiles each public header of a target in a folder of include/ by itself: it must include what it
# needs. scripts/check/check_includes.py looks at the headers of the standard library, because to
# compile those anew for each header would take a minute.
function(gpemu_check_headers target folder)
  foreach(header IN LISTS ARGN)
    set(file "${CMAKE_CURRENT_BINARY_DIR}/headers/${header}.cpp")
    file(CONFIGURE OUTPUT "${file}" CONTENT "#include \"${folder}/${header}\"\n")
    list(APPEND files "${file}")
  endforeach()
  add_library(${target}_headers OBJECT ${files})
  target_compile_features(${target}_headers PRIVATE cxx_std_23)
  target_link_libraries(${target}_headers PRIVATE ${target} gpemu_flags)
  set_target_properties(${target}_headers PROPERTIES
    UNITY_BUILD OFF
    CXX_EXTENSIONS OFF
    POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
  gpemu_share_common_headers(${target}_headers)
  add_dependencies(gpemu_unit_tests ${target}_headers)
endfunction()

# More take less time in all, and more time after a change.
set(GPEMU_FILES_TOGETHER 20 CACHE STRING "How many files of a module are compiled as one")

# Has up to `count` files of a target compiled as one: they use the same headers. The preset tidy
# compiles each by itself, the sanitizers' presets choose a number of their own.
function(gpemu_compile_together target count)
  if(NOT CMAKE_CXX_CLANG_TIDY AND NOT CMAKE_UNITY_BUILD)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${count})
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:gpemu_unity_flags>)
  endif()
endfunction()

# gpemu_add_module(<name>
#   HEADERS <public headers below include/gpemu/<name>/>...
#   SOURCES <file>...
#   [DEPENDS <module>...]        modules whose headers the public headers use
#   [LIBRARIES <target>...]      third-party libraries that the public headers use
#   [PRIVATE_LIBRARIES <target>...]
#   [TESTS <unit>_test.cpp...]   one GoogleTest executable per module, label "unit"
#   [ONE_THREAD] [NO_TSAN]       see gpemu_discover_unit_tests
#   [TEST_LIBRARIES <target>...]
#   [BENCHES <unit>_bench.cpp...])
function(gpemu_add_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "ONE_THREAD;NO_TSAN" ""
    "HEADERS;SOURCES;DEPENDS;LIBRARIES;PRIVATE_LIBRARIES;TESTS;TEST_LIBRARIES;BENCHES")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "gpemu_add_module(${name}): unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()

  set(target gpemu_${name})
  add_library(${target} STATIC ${arg_SOURCES})
  add_library(gpemu::${name} ALIAS ${target})
  set(headers ${arg_HEADERS})
  list(TRANSFORM headers PREPEND "${PROJECT_SOURCE_DIR}/include/gpemu/${name}/")
  target_sources(${target} PUBLIC FILE_SET HEADERS
    BASE_DIRS "${PROJECT_SOURCE_DIR}/include" FILES ${headers})
  target_compile_features(${target} PUBLIC cxx_std_23)
  set_target_properties(${target} PROPERTIES
    CXX_EXTENSIONS OFF
    POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    EXPORT_NAME ${name})
  target_include_directories(${target} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
  list(TRANSFORM arg_DEPENDS PREPEND "gpemu::")
  target_link_libraries(${target}
    PUBLIC ${arg_DEPENDS} ${arg_LIBRARIES}
    PRIVATE ${arg_PRIVATE_LIBRARIES} $<BUILD_INTERFACE:gpemu_flags>)
  set_property(GLOBAL APPEND PROPERTY GPEMU_MODULES ${target})
  gpemu_share_common_headers(${target})
  # A release is compiled file by file: what g++ inlines depends on all that it sees. In batches, a
  # new file would change how long other calls take.
  if(NOT CMAKE_BUILD_TYPE STREQUAL "Release")
    gpemu_compile_together(${target} ${GPEMU_FILES_TOGETHER})
  endif()

  if(GPEMU_CHECK_HEADERS AND GPEMU_BUILD_TESTS AND arg_HEADERS)
    gpemu_check_headers(${target} gpemu/${name} ${arg_HEADERS})
  endif()

  if(arg_TESTS AND GPEMU_BUILD_TESTS)
    add_executable(${target}_test ${arg_TESTS})
    target_link_libraries(${target}_test PRIVATE ${target} ${arg_TEST_LIBRARIES}
      gpemu_flags GTest::gtest_main)
    target_include_directories(${target}_test PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
    set(threads "")
    foreach(option IN ITEMS ONE_THREAD NO_TSAN)
      if(arg_${option})
        list(APPEND threads ${option})
      endif()
    endforeach()
    gpemu_discover_unit_tests(${target}_test ${name} ${threads})
    gpemu_share_test_header(${target}_test)
    gpemu_compile_together(${target}_test 60)
  endif()
  if(arg_BENCHES AND GPEMU_BUILD_BENCHMARKS)
    add_executable(${target}_bench ${arg_BENCHES})
    target_link_libraries(${target}_bench PRIVATE ${target} ${arg_TEST_LIBRARIES}
      gpemu_flags benchmark::benchmark_main)
    set_target_properties(${target}_bench PROPERTIES CXX_EXTENSIONS OFF)
    target_include_directories(${target}_bench PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
    set_property(GLOBAL APPEND PROPERTY GPEMU_BENCHES ${target}_bench)
    if(BUILD_TESTING)
      add_test(NAME bench.${name} COMMAND ${target}_bench --benchmark_min_time=0.01)
      set_tests_properties(bench.${name} PROPERTIES LABELS bench)
    endif()
  endif()
endfunction()

# Lists the executables of all benchmarks in benches.txt, for scripts/claims/bench_table.py, and
# makes the target gpemu_benches for them. Call it after the last benchmark.
function(gpemu_list_benches)
  get_property(benches GLOBAL PROPERTY GPEMU_BENCHES)
  add_custom_target(gpemu_benches DEPENDS ${benches})
  list(TRANSFORM benches REPLACE "(.+)" "$<TARGET_FILE:\\1>")
  list(JOIN benches "\n" lines)
  file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/benches.txt" CONTENT "${lines}\n")
endfunction()
