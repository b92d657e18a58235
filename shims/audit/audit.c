/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An auditing library of the dynamic loader (man 7 rtld-audit), set by `gpemu run`: whenever a
 * program asks for one of NVIDIA's libraries, by NEEDED or dlopen, by name or by path, the loader
 * gets the shim of that name. So a process loads only the shims that it uses. With LD_LIBRARY_PATH
 * instead, a library in the program's RPATH would come first.
 *
 * This code runs inside the loader, in its own namespace, before and during the rest of the
 * program. It must not allocate or print, and may call only the simplest functions of libc.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The folders below GPEMU_SHIMS, in the order in which they are searched. */
static const char* const kFolders[] = {"common", "cuda11", "cuda12", "cuda13"};

static const char* shims;

/*
 * Makes the file "PID.KIND" in the folder of the run's records. Returns it, or -1 if there is no
 * such folder or the file exists.
 */
static int make_note(const char* kind) {
  static char name[PATH_MAX];
  const char* const folder = getenv("GPEMU_RECORD_DIR");
  if (folder == NULL || folder[0] == '\0') return -1;
  const int length = snprintf(name, sizeof(name), "%s/%ld.%s", folder, (long)getpid(), kind);
  if (length < 0 || (size_t)length >= sizeof(name)) return -1;
  return open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

/* Returns a variable as a number, or -1 if it is none. */
static long number_in(const char* name) {
  const char* const text = getenv(name);
  if (text == NULL || text[0] < '0' || text[0] > '9') return -1;
  char* end = NULL;
  const long number = strtol(text, &end, 10);
  return *end == '\0' ? number : -1;
}

/*
 * Ends a process that a launcher has started as a rank which must not run: a phantom, for which the
 * ranks that run act (docs/design/collectives.md). To torchrun, it is a worker that has succeeded.
 */
static void end_phantom(void) {
  const long real = number_in("GPEMU_REAL_RANKS");
  if (real < 1 || number_in("RANK") < real) return;
  const int file = make_note("phantom");
  if (file >= 0) close(file);
  _exit(0);
}

/*
 * Writes a file to the folder of the run's records, once per process: which of NVIDIA's libraries
 * the program asked for. A program that never uses a GPU leaves no other trace.
 */
static void note_library(const char* base) {
  static int noted;
  static char text[PATH_MAX + 256];
  if (noted) return;
  noted = 1;
  const int file = make_note("loaded");
  if (file < 0) return;
  ssize_t program = readlink("/proc/self/exe", text, PATH_MAX - 1);
  if (program < 0) program = 0;
  const int length = snprintf(text + program, 256, "\n%s\n", base);
  if (length > 0 && write(file, text, (size_t)program + (size_t)length) < 0) noted = 1;
  close(file);
}

/* Large enough for any path; the loader holds a lock whenever this is written. */
static char path[PATH_MAX];

unsigned int la_version(unsigned int version) {
  end_phantom();
  shims = getenv("GPEMU_SHIMS");
  if (shims != NULL && shims[0] == '\0') shims = NULL;
  return version < LAV_CURRENT ? version : LAV_CURRENT;
}

/* Returns the shim with that file name, or NULL if there is none. */
static char* file_in_shims(const char* base, const char* version) {
  for (size_t i = 0; i < sizeof(kFolders) / sizeof(kFolders[0]); ++i) {
    const int length =
        snprintf(path, sizeof(path), "%s/%s/%s%s", shims, kFolders[i], base, version);
    if (length > 0 && (size_t)length < sizeof(path) && access(path, R_OK) == 0) return path;
  }
  return NULL;
}

/*
 * Some programs, such as Slurm, load the driver's libraries by names without a version. There, a
 * linker may have a text file (libcuda.so).
 */
static char* shim_of(const char* base) {
  const size_t length = strlen(base);
  char* const found =
      length > 3 && strcmp(base + length - 3, ".so") == 0 ? file_in_shims(base, ".1") : NULL;
  return found != NULL ? found : file_in_shims(base, "");
}

/*
 * The loader asks with the name as the program gave it (LA_SER_ORIG), then with each path that it
 * tries, those of the system's own folders last (LA_SER_DEFAULT).
 */
char* la_objsearch(const char* name, uintptr_t* cookie, unsigned int flag) {
  (void)cookie;
  if (shims == NULL || (flag != LA_SER_ORIG && flag != LA_SER_DEFAULT)) return (char*)name;
  const char* const slash = strrchr(name, '/');
  const char* const base = slash == NULL ? name : slash + 1;
  /* NVIDIA's libraries begin like this; others cost no system call. */
  if (strncmp(base, "libcu", 5) != 0 && strncmp(base, "libnv", 5) != 0 &&
      strncmp(base, "libnccl", 7) != 0) {
    return (char*)name;
  }
  /* NVIDIA's run-time compiler and linker need no GPU: if they are installed, they work. */
  const int compiler =
      strncmp(base, "libnvrtc.", 9) == 0 || strncmp(base, "libnvJitLink.", 13) == 0;
  const int last_try = flag == LA_SER_DEFAULT || (flag == LA_SER_ORIG && slash != NULL);
  if (compiler ? !last_try || access(name, R_OK) == 0 : flag != LA_SER_ORIG) return (char*)name;
  char* const found = shim_of(base);
  if (found != NULL) note_library(base);
  return found == NULL ? (char*)name : found;
}
