/* The job token: 256 random bits. A process proves with it that it belongs to the job (native.h).
 *
 * Example:
 *     unsigned char token[YK_TOKEN_BYTES];
 *     char text[YK_TOKEN_TEXT];
 *     yk_status st = yk_token_create(token);
 *     yk_token_print(token, text); // 64 hexadecimal digits: for a file that only its owner can read
 *
 * Any thread may call these functions.
 */
#ifndef YK_COMM_TOKEN_H
#define YK_COMM_TOKEN_H

#include "base/status.h"
#include "comm/native.h"

enum { YK_TOKEN_TEXT = 2 * YK_TOKEN_BYTES + 1 };

yk_status yk_token_create(unsigned char *out /* [YK_TOKEN_BYTES] */);
void yk_token_print(const unsigned char *token, char *out /* [YK_TOKEN_TEXT] */);

/* Returns the text after 64 hexadecimal digits, at which the text or its line must end; NULL: there are none. */
const char *yk_token_parse(const char *text, unsigned char *out);

/* Reads the start of a file that only its owner, or its group, can read; anything else is YK_EUSAGE. `what` names the option
 * or variable, for errors. yk_token_file() reads the token in its first line. */
yk_status yk_token_text(const char *what, const char *path, char *out, size_t size);
yk_status yk_token_file(const char *what, const char *path, unsigned char *out);

#endif
