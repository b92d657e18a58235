# Compile flags for this project's own targets; never exported to those who link the libraries.
add_library(gpemu_flags INTERFACE)
target_compile_options(gpemu_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>
  -Wno-missing-field-initializers  # designated initialisers leave out what has its default
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual>
  # g++ 12 sees overlapping copies in its own std::string (gcc.gnu.org/PR105651).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  # With -O3, it sees the same in the library's strings of other sizes (PR105329).
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<CONFIG:Release>>:-Wno-array-bounds;-Wno-stringop-overflow>
  # By default, g++ looks for unused memory so often that it takes up to a quarter more time. This
  # lets it use 512 MiB (in KiB) before it looks.
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=524288>
  # clang warns users of std::stable_sort about calls inside libstdc++ 12.
  $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>
  $<$<BOOL:${GPEMU_WARNINGS_AS_ERRORS}>:-Werror>)

# Of several files compiled as one, each sees what the others name, and g++ takes all of them for
# headers. The preset tidy compiles each file by itself, with these warnings. A target that links
# this must link it after gpemu_flags.
add_library(gpemu_unity_flags INTERFACE)
target_compile_options(gpemu_unity_flags INTERFACE
  -Wno-shadow $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
if(CMAKE_UNITY_BUILD)
  target_link_libraries(gpemu_flags INTERFACE gpemu_unity_flags)
endif()

if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  # g++ 12 clears objects of some 100 bytes with `rep stos`, which starts slowly; each launch
  # describes an operation, which is such an object.
  target_compile_options(gpemu_flags INTERFACE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-mmemset-strategy=libcall:-1:noalign>)
endif()

if(GPEMU_SANITIZE)
  # Global, so that every object of a sanitized build agrees.
  add_compile_options(-fsanitize=${GPEMU_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
    add_compile_options(-fsanitize-ignorelist=${PROJECT_SOURCE_DIR}/cmake/sanitizers.ignore)
  endif()
  add_link_options(-fsanitize=${GPEMU_SANITIZE})
  # GPEMU_SANITIZE_THREAD and so on, for tests of what a sanitizer does not bear.
  string(TOUPPER "${GPEMU_SANITIZE}" sanitizers)
  string(REPLACE "," ";" sanitizers "${sanitizers}")
  list(TRANSFORM sanitizers PREPEND GPEMU_SANITIZE_)
  add_compile_definitions(${sanitizers})
endif()
if(GPEMU_BUILD_FUZZERS)
  # The coverage that guides the fuzzers, for the libraries too.
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
