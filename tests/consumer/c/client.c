/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include <gpemu/gpemu.h>

/* Ends the program with the library's message when a call fails. */
#define TRY(call)                                             \
  do {                                                        \
    if ((call) != GPEMU_OK) {                                 \
      fprintf(stderr, "%s: %s\n", #call, gpemu_last_error()); \
      return 1;                                               \
    }                                                         \
  } while (0)

int main(void) {
  gpemu_node_config config = {.struct_size = sizeof config,
                              .gpu = "V100-PCIE-32GB",
                              .device_count = 1,
                              .clock = GPEMU_CLOCK_VIRTUAL};
  gpemu_node* node = NULL;
  gpemu_device* device = NULL;
  gpemu_stream* stream = NULL;
  int64_t now_ns = 0;

  TRY(gpemu_node_create(&config, &node));
  TRY(gpemu_device_open(node, 0, &device));
  TRY(gpemu_stream_create(device, GPEMU_STREAM_NON_BLOCKING, &stream));
  TRY(gpemu_stream_launch(stream, 5000000, NULL));
  TRY(gpemu_stream_synchronize(stream));
  TRY(gpemu_node_now(node, &now_ns));
  gpemu_stream_destroy(stream);
  gpemu_device_close(device);
  gpemu_node_close(node);
  return now_ns == 5000000 ? 0 : 1;
}
