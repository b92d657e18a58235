/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns of a GPU through a message broker, as GPEmu (VLDB 2025) shares one: a client asks in a
 * queue for its turn and waits for the answer in a queue of its own; the manager takes one request
 * after the other and answers. The turns take no time, so that only the arbitration is measured.
 *
 * Usage: rabbitmq_turns client|manager PORT TURNS
 *
 * The client prints the microseconds that a turn took, in the mean. Both end with an error message
 * and 1 when the broker refuses anything.
 */
#include <amqp.h>
#include <amqp_tcp_socket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char* const kRequests = "gpu_requests";
static const char* const kAnswers = "gpu_answers";

static void must(int good, const char* what) {
  if (good) return;
  fprintf(stderr, "rabbitmq_turns: %s failed\n", what);
  exit(1);
}

static void check(amqp_connection_state_t connection, const char* what) {
  must(amqp_get_rpc_reply(connection).reply_type == AMQP_RESPONSE_NORMAL, what);
}

static amqp_connection_state_t connect_to(int port) {
  amqp_connection_state_t connection = amqp_new_connection();
  amqp_socket_t* const socket = amqp_tcp_socket_new(connection);
  must(socket != NULL && amqp_socket_open(socket, "127.0.0.1", port) == AMQP_STATUS_OK,
       "connecting");
  must(amqp_login(connection, "/", 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, "guest", "guest")
               .reply_type == AMQP_RESPONSE_NORMAL,
       "logging in");
  amqp_channel_open(connection, 1);
  check(connection, "opening a channel");
  for (int i = 0; i < 2; ++i) {
    amqp_queue_declare(connection, 1, amqp_cstring_bytes(i == 0 ? kRequests : kAnswers), 0, 0, 0, 0,
                       amqp_empty_table);
    check(connection, "declaring a queue");
  }
  return connection;
}

static void consume(amqp_connection_state_t connection, const char* queue) {
  amqp_basic_consume(connection, 1, amqp_cstring_bytes(queue), amqp_empty_bytes, 0, 1, 0,
                     amqp_empty_table);
  check(connection, "consuming");
}

static void send_to(amqp_connection_state_t connection, const char* queue) {
  must(amqp_basic_publish(connection, 1, amqp_empty_bytes, amqp_cstring_bytes(queue), 0, 0, NULL,
                          amqp_cstring_bytes("{\"app_id\": 0, \"compute_time\": 0}")) ==
           AMQP_STATUS_OK,
       "publishing");
}

static void receive(amqp_connection_state_t connection) {
  amqp_envelope_t envelope;
  amqp_maybe_release_buffers(connection);
  must(amqp_consume_message(connection, &envelope, NULL, 0).reply_type == AMQP_RESPONSE_NORMAL,
       "receiving");
  amqp_destroy_envelope(&envelope);
}

int main(int argc, char** argv) {
  must(argc == 4, "reading the arguments: client|manager PORT TURNS");
  const int is_client = strcmp(argv[1], "client") == 0;
  const long turns = atol(argv[3]);
  const amqp_connection_state_t connection = connect_to(atoi(argv[2]));
  consume(connection, is_client ? kAnswers : kRequests);
  struct timespec start, end;
  clock_gettime(CLOCK_MONOTONIC, &start);
  for (long i = 0; i < turns; ++i) {
    if (is_client) send_to(connection, kRequests);
    receive(connection);
    if (!is_client) send_to(connection, kAnswers);
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  if (is_client) {
    printf("%.1f\n", ((double)(end.tv_sec - start.tv_sec) * 1e6 +
                      (double)(end.tv_nsec - start.tv_nsec) / 1e3) /
                         (double)turns);
  }
  amqp_connection_close(connection, AMQP_REPLY_SUCCESS);
  amqp_destroy_connection(connection);
  return 0;
}
