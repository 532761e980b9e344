/* An agent that answers at once: each request from a prepared string, parsing nothing but its id.
   argv: [UPDATES [SIZE]]: so many updates of about SIZE bytes in the turn. Or `line MEGABYTES`: one long one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void answer(const char *id, const char *result) {
    printf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n", id, result);
    fflush(stdout);
}

static void update(size_t size) {
    static const char head[] = "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"s\",\"update\":"
                               "{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"";
    static const char tail[] = "\"}}}}\n";
    fputs(head, stdout);
    for (size_t have = sizeof head + sizeof tail - 2; have < size; have++) putchar('x');
    fputs(tail, stdout);
}

int main(int argc, char **argv) {
    static char line[1 << 20], id[64];
    int one = argc > 2 && !strcmp(argv[1], "line");
    long count = one ? 1 : argc > 1 ? atol(argv[1]) : 1;
    size_t size = one ? (size_t)atol(argv[2]) << 20 : argc > 2 ? (size_t)atol(argv[2]) : 150;
    static char buffer[1 << 16];
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    while (fgets(line, sizeof line, stdin)) {
        char *at = strstr(line, "\"id\":");
        if (!at || sscanf(at + 5, "%63[^,}]", id) != 1) continue;
        if (strstr(line, "\"initialize\"")) answer(id, "{\"protocolVersion\":1}");
        else if (strstr(line, "\"session/new\"")) answer(id, "{\"sessionId\":\"s\"}");
        else {
            for (long i = 0; i < count; i++) update(size);
            answer(id, "{\"stopReason\":\"end_turn\"}");
        }
    }
    return 0;
}
