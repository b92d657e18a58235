# Finds the libraries that gpemu uses. A build with GPEMU_PORTABLE needs none of them at run time,
# so its packages work on every system whose C library is not older.
if(GPEMU_PORTABLE)
  set(shared_suffixes "${CMAKE_FIND_LIBRARY_SUFFIXES}")
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
endif()
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
find_package(ZLIB REQUIRED)
find_package(SQLite3 3.34 REQUIRED)
if(GPEMU_PORTABLE)
  set(CMAKE_FIND_LIBRARY_SUFFIXES "${shared_suffixes}")
endif()
# liburing, which has no package for CMake.
find_library(GPEMU_LIBURING uring REQUIRED)
mark_as_advanced(GPEMU_LIBURING)
set(GPEMU_URING uring)
if(GPEMU_PORTABLE)
  set(GPEMU_URING $<BUILD_INTERFACE:-l:liburing.a> $<INSTALL_INTERFACE:uring>)
endif()
# Clp, which solves linear programs, has no package for CMake either. It needs LAPACK and BLAS, of
# which packages have the reference implementations: others need more.
set(GPEMU_CLP Clp CoinUtils)
if(GPEMU_PORTABLE)
  find_library(GPEMU_LAPACK liblapack.a PATH_SUFFIXES lapack REQUIRED)
  find_library(GPEMU_BLAS libblas.a PATH_SUFFIXES blas REQUIRED)
  mark_as_advanced(GPEMU_LAPACK GPEMU_BLAS)
  set(GPEMU_CLP
    $<BUILD_INTERFACE:-l:libClp.a> $<BUILD_INTERFACE:-l:libCoinUtils.a>
    $<BUILD_INTERFACE:${GPEMU_LAPACK}> $<BUILD_INTERFACE:${GPEMU_BLAS}>
    $<BUILD_INTERFACE:-l:libbz2.a> $<INSTALL_INTERFACE:Clp> $<INSTALL_INTERFACE:CoinUtils>)
endif()
find_path(GPEMU_CURL_INCLUDE curl/curl.h REQUIRED)
mark_as_advanced(GPEMU_CURL_INCLUDE)
# gRPC without its TLS, for remote preprocessing: a library that the command loads when it is asked
# for that. Packages do without: Debian's static libraries of gRPC cannot become part of one.
find_library(GPEMU_GRPCPP grpc++_unsecure)
find_library(GPEMU_GRPC_CORE grpc_unsecure)
find_library(GPEMU_GPR gpr)
mark_as_advanced(GPEMU_GRPCPP GPEMU_GRPC_CORE GPEMU_GPR)
if(GPEMU_PORTABLE)
  set(GPEMU_GRPC OFF)
elseif(GPEMU_GRPCPP AND GPEMU_GRPC_CORE AND GPEMU_GPR)
  set(GPEMU_GRPC ON)
  set(GPEMU_GRPC_LIBRARIES ${GPEMU_GRPCPP} ${GPEMU_GRPC_CORE} ${GPEMU_GPR})
else()
  message(STATUS "No gRPC: gpemu is built without remote preprocessing")
endif()
find_package(Ceres 2.1 REQUIRED)  # Its headers have derivatives, its library the solver.
find_package(CLI11 2 REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(Threads REQUIRED)
find_package(tomlplusplus 3 REQUIRED)

if(GPEMU_PORTABLE)
  # Drops unused code, because some of libstdc++ needs functions of the newest C library.
  add_link_options(-static-libstdc++ LINKER:--gc-sections)
  # Of the C library, programs and libraries take the versions that the oldest systems have.
  add_library(gpemu_old_glibc OBJECT "${CMAKE_CURRENT_LIST_DIR}/portable/old_glibc.c")
  target_compile_options(gpemu_old_glibc PRIVATE -fPIC -ffunction-sections)
  set(separate "-l:libpthread.so.0,-l:libdl.so.2")
  link_libraries(
    "$<BUILD_INTERFACE:$<TARGET_OBJECTS:gpemu_old_glibc>>"
    "$<BUILD_INTERFACE:-Wl,--push-state,--no-as-needed,${separate},--pop-state>")
endif()

# Sets `variable` to the target that a module links for `package`: with GPEMU_PORTABLE, a static
# library of `file` that defines what the package's headers declare. Users of an installed gpemu
# link the package itself.
function(gpemu_find_portable variable package file)
  set(${variable} ${package} PARENT_SCOPE)
  if(NOT GPEMU_PORTABLE)
    return()
  endif()
  set(target gpemu_portable_${variable})
  add_library(${target} STATIC ${file})
  target_compile_features(${target} PUBLIC cxx_std_17)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_include_directories(${target} SYSTEM PUBLIC
    $<TARGET_PROPERTY:${package},INTERFACE_INCLUDE_DIRECTORIES>)
  target_compile_definitions(${target} PUBLIC
    $<TARGET_PROPERTY:${package},INTERFACE_COMPILE_DEFINITIONS>)
  target_compile_options(${target} PUBLIC
    $<TARGET_PROPERTY:${package},INTERFACE_COMPILE_OPTIONS>)
  set(${variable} $<BUILD_INTERFACE:${target}> $<INSTALL_INTERFACE:${package}> PARENT_SCOPE)
endfunction()
