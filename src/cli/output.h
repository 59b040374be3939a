/* Results of a command, written to stdout or to a file. The file appears when it is complete.
 *
 * Example:
 *     yk_output *o = yk_output_open("p.txt");       // NULL: stdout; exits with a message on failure
 *     yk_output_print(o, "%.7g\n", p);
 *     yk_output_json_text(o, "a \"quoted\" name");
 *     const int code = yk_output_close(o, 0);       // the exit status; keeps the file only if it is 0
 *
 * Functions report errors and return an exit status. Not thread-safe.
 */
#ifndef YK_CLI_OUTPUT_H
#define YK_CLI_OUTPUT_H

typedef struct yk_output yk_output;

yk_output *yk_output_open(const char *path);
void yk_output_print(yk_output *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
void yk_output_json_text(yk_output *o, const char *text); /* with quotes and escapes */
int yk_output_failed(const yk_output *o);                 /* whether writing has failed */
int yk_output_close(yk_output *o, int code);              /* reports a failure to write */

#endif
