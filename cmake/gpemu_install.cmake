# Installs the command, the libraries with their headers, and the files for find_package(gpemu) and
# pkg-config.
include(CMakePackageConfigHelpers)

get_property(modules GLOBAL PROPERTY GPEMU_MODULES)
install(TARGETS ${modules} gpemu_capi EXPORT gpemu_targets
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT development
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" NAMELINK_COMPONENT development
  FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT development)
install(TARGETS gpemu RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs/reference/schemas"
  DESTINATION "${CMAKE_INSTALL_DATADIR}/gpemu")

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/gpemu")
install(EXPORT gpemu_targets NAMESPACE gpemu:: FILE gpemuTargets.cmake
  DESTINATION "${package_dir}" COMPONENT development)
configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/gpemuConfig.cmake.in" "${PROJECT_BINARY_DIR}/gpemuConfig.cmake"
  INSTALL_DESTINATION "${package_dir}"
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/gpemuConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES
  "${PROJECT_BINARY_DIR}/gpemuConfig.cmake" "${PROJECT_BINARY_DIR}/gpemuConfigVersion.cmake"
  DESTINATION "${package_dir}" COMPONENT development)

file(RELATIVE_PATH prefix_from_pkgconfig
  "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
configure_file("${PROJECT_SOURCE_DIR}/cmake/gpemu.pc.in" "${PROJECT_BINARY_DIR}/gpemu.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/gpemu.pc"
  DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT development)
