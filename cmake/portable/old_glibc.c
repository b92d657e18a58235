// SPDX-License-Identifier: Apache-2.0
//
// What the C library of the machine on which packages are built has in newer versions than that of
// the oldest systems on which they run, Debian 11 and Ubuntu 20.04 (glibc 2.31): each function is
// the old version of itself, which all newer C libraries have, too. Every program and library of a
// package contains this file, so the linker takes these in place of the C library's newest.
//
// Before 2.34, those of threads and of dlopen were in libraries of their own, which the packages'
// files therefore name. Source of the versions: glibc 2.31's sysdeps/unix/sysv/linux/*/*.abilist.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifdef __aarch64__
#define FIRST "GLIBC_2.17"
#define OF_2_12 "GLIBC_2.17"
#else
#define FIRST "GLIBC_2.2.5"
#define OF_2_12 "GLIBC_2.12"
#endif

#pragma GCC visibility push(hidden)

#define OF_LIBRARY __attribute__((visibility("default")))
// Weak, because gpemu's own functions of the same names count.
#define WEAK(name) extern __attribute__((weak)) __typeof__(name) name
#define OLD(name, version)                       \
  WEAK(name);                                    \
  extern OF_LIBRARY __typeof__(name) old_##name; \
  __asm__(".symver old_" #name "," #name "@" version)

// libstdc++ takes locks only in programs with several threads if it is told that there is one.
char __libc_single_threaded = 0;

OLD(pthread_create, FIRST);
int pthread_create(pthread_t* restrict thread, const pthread_attr_t* restrict attributes,
                   void* (*start)(void*), void* restrict argument) {
  return old_pthread_create(thread, attributes, start, argument);
}
OLD(pthread_join, FIRST);
int pthread_join(pthread_t thread, void** result) {
  return old_pthread_join(thread, result);
}
OLD(pthread_detach, FIRST);
int pthread_detach(pthread_t thread) {
  return old_pthread_detach(thread);
}
OLD(pthread_once, FIRST);
int pthread_once(pthread_once_t* control, void (*function)(void)) {
  return old_pthread_once(control, function);
}
OLD(pthread_mutexattr_init, FIRST);
int pthread_mutexattr_init(pthread_mutexattr_t* attributes) {
  return old_pthread_mutexattr_init(attributes);
}
OLD(pthread_mutexattr_destroy, FIRST);
int pthread_mutexattr_destroy(pthread_mutexattr_t* attributes) {
  return old_pthread_mutexattr_destroy(attributes);
}
OLD(pthread_mutexattr_settype, FIRST);
int pthread_mutexattr_settype(pthread_mutexattr_t* attributes, int type) {
  return old_pthread_mutexattr_settype(attributes, type);
}
OLD(pthread_mutex_trylock, FIRST);
int pthread_mutex_trylock(pthread_mutex_t* mutex) {
  return old_pthread_mutex_trylock(mutex);
}
OLD(pthread_getcpuclockid, FIRST);
int pthread_getcpuclockid(pthread_t thread, clockid_t* clock) {
  return old_pthread_getcpuclockid(thread, clock);
}
OLD(pthread_sigmask, FIRST);
int pthread_sigmask(int how, const sigset_t* restrict set, sigset_t* restrict old) {
  return old_pthread_sigmask(how, set, old);
}
OLD(pthread_testcancel, FIRST);
void pthread_testcancel(void) {
  old_pthread_testcancel();
}
OLD(pthread_setname_np, OF_2_12);
int pthread_setname_np(pthread_t thread, const char* name) {
  return old_pthread_setname_np(thread, name);
}
OLD(pthread_cond_clockwait, "GLIBC_2.30");
int pthread_cond_clockwait(pthread_cond_t* restrict condition, pthread_mutex_t* restrict mutex,
                           clockid_t clock, const struct timespec* restrict end) {
  return old_pthread_cond_clockwait(condition, mutex, clock, end);
}

OLD(dlopen, FIRST);
void* dlopen(const char* file, int mode) {
  return old_dlopen(file, mode);
}
OLD(dlsym, FIRST);
void* dlsym(void* restrict handle, const char* restrict name) {
  return old_dlsym(handle, name);
}
OLD(dlvsym, FIRST);
void* dlvsym(void* restrict handle, const char* restrict name, const char* restrict version) {
  return old_dlvsym(handle, name, version);
}
OLD(dlclose, FIRST);
int dlclose(void* handle) {
  return old_dlclose(handle);
}
OLD(dlerror, FIRST);
char* dlerror(void) {
  return old_dlerror();
}
OLD(dladdr, FIRST);
int dladdr(const void* address, Dl_info* info) {
  return old_dladdr(address, info);
}

// Before 2.33, stat() was a function of the program itself, which called these. The first argument
// is the version of the structure: that of the kernel's. Source: glibc 2.31, bits/stat.h.
#ifdef __aarch64__
enum { kStatVersion = 0 };
#else
enum { kStatVersion = 1 };
#endif
extern OF_LIBRARY int old_xstat(int version, const char* path, struct stat* status);
__asm__(".symver old_xstat,__xstat@" FIRST);
extern OF_LIBRARY int old_fxstat(int version, int descriptor, struct stat* status);
__asm__(".symver old_fxstat,__fxstat@" FIRST);
extern OF_LIBRARY int old_lxstat(int version, const char* path, struct stat* status);
__asm__(".symver old_lxstat,__lxstat@" FIRST);
WEAK(stat);
WEAK(fstat);
WEAK(lstat);
WEAK(stat64);
WEAK(fstat64);
WEAK(lstat64);
int stat(const char* restrict path, struct stat* restrict status) {
  return old_xstat(kStatVersion, path, status);
}
int fstat(int descriptor, struct stat* status) {
  return old_fxstat(kStatVersion, descriptor, status);
}
int lstat(const char* restrict path, struct stat* restrict status) {
  return old_lxstat(kStatVersion, path, status);
}
// On processors of 64 bits, these are the same.
int stat64(const char* restrict path, struct stat64* restrict status) {
  return stat(path, (struct stat*)status);
}
int fstat64(int descriptor, struct stat64* status) {
  return fstat(descriptor, (struct stat*)status);
}
int lstat64(const char* restrict path, struct stat64* restrict status) {
  return lstat(path, (struct stat*)status);
}

// Newer than 2.31.
WEAK(closefrom);
__attribute__((weak)) uint32_t arc4random(void);
void closefrom(int first) {
  if (syscall(SYS_close_range, (unsigned)first, ~0U, 0U) == 0) return;
  const long most = sysconf(_SC_OPEN_MAX);
  for (long descriptor = first; descriptor < most; ++descriptor) close((int)descriptor);
}
uint32_t arc4random(void) {
  uint32_t number = 0;
  while (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) {
  }
  return number;
}

// Since 2.34, the C library runs a program's constructors. Before, the program did.
extern OF_LIBRARY int old_libc_start_main(int (*main)(int, char**, char**), int argc, char** argv,
                                          void (*init)(int, char**, char**), void (*fini)(void),
                                          void (*rtld_fini)(void), void* stack_end);
__asm__(".symver old_libc_start_main,__libc_start_main@" FIRST);
typedef void Function(int, char**, char**);
extern Function* __preinit_array_start[];
extern Function* __preinit_array_end[];
extern Function* __init_array_start[];
extern Function* __init_array_end[];
extern void (*__fini_array_start[])(void);
extern void (*__fini_array_end[])(void);

static void construct(int argc, char** argv, char** environment) {
  for (Function** one = __init_array_start; one != __init_array_end; ++one) {
    (*one)(argc, argv, environment);
  }
}
static void destroy(void) {
  for (void (**one)(void) = __fini_array_end; one != __fini_array_start;) (*--one)();
}
int __libc_start_main(int (*main)(int, char**, char**), int argc, char** argv,
                      void (*init)(int, char**, char**), void (*fini)(void),
                      void (*rtld_fini)(void), void* stack_end) {
  (void)init;
  (void)fini;
  return old_libc_start_main(main, argc, argv, construct, destroy, rtld_fini, stack_end);
}
