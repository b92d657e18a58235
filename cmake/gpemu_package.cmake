# Debian packages, by CPack: gpemu with everything for running, libgpemu-dev with everything for
# building programs. scripts/build/build_deb.sh makes them from the preset "package".
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "The gpemu authors")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_COMPONENTS_ALL runtime development)

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME gpemu)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION
  "The command, the library, the shims for NVIDIA's libraries and the profiles.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libgpemu-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "gpemu (= ${PROJECT_VERSION}), \
coinor-libclp-dev, libfmt-dev, libjpeg-dev, liblemon-dev, libpng-dev, libsqlite3-dev, \
libtomlplusplus-dev, liburing-dev, nlohmann-json3-dev, zlib1g-dev")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
  "Headers, the modules as static libraries, and what CMake and pkg-config find them by.")
include(CPack)

# Statically linked libraries are redistributed, with their licences.
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE"
  DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/gpemu" RENAME copyright)
if(GPEMU_PORTABLE)
  foreach(package IN ITEMS coinor-libclp-dev coinor-libcoinutils-dev gcc-12-base libblas-dev
      libbz2-dev libceres-dev libcli11-dev libeigen3-dev libfmt-dev libjpeg62-turbo-dev
      liblapack-dev liblemon-dev libpng-dev libsqlite3-dev libtomlplusplus-dev
      liburing-dev nlohmann-json3-dev zlib1g-dev)
    install(FILES "/usr/share/doc/${package}/copyright" OPTIONAL
      DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/gpemu/third-party" RENAME ${package})
  endforeach()
endif()
