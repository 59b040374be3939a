/* Fields by position, for rows without field numbers: the first entry of each row is in field 0, the second in field 1, and so on.
 *
 *     1 3:1 17:1 204:2.25
 *     0 5:1 11:1 207:1          three fields: indices 3 to 5, 11 to 17, and 204 to 207
 *
 * The order is that of the indices, not of the file. All rows must have the same number of entries, and the ranges of indices at
 * the positions must not overlap, so that every index belongs to one field. Training and test data share one yk_positions.
 *
 * Example:
 *     yk_positions p;
 *     yk_positions_init(&p, 0);                                // the first row decides how many fields there are
 *     size_t row = 0;
 *     yk_status st = yk_positions_number(&p, &rows, &row);    // YK_EDATA: row `row` does not fit
 *     yk_positions_fini(&p);
 *
 * Several threads may number rows at the same time, each its own.
 */
#ifndef YK_DATA_POSITIONS_H
#define YK_DATA_POSITIONS_H

#include "base/sync.h"
#include "core/rows.h"

typedef struct {
    yk_mutex lock;   /* held while n or range changes */
    atomic_size_t n; /* entries per row; 0: no row yet */
    size_t expected; /* the same, if it is known in advance; else 0 */
    struct yk__position_range {
        atomic_uint_least32_t low, high;
    } * range; /* [n] of each position so far; owned */
} yk_positions;

void yk_positions_init(yk_positions *p, size_t expected);
void yk_positions_fini(yk_positions *p);

/* Sets the field numbers of all rows from *row. YK_EDATA: row *row does not fit; the text of the error says why, as a part of
 * another message. */
yk_status yk_positions_number(yk_positions *p, yk_rows *rows, size_t *row);

/* The same for the last row, which is removed if it does not fit. */
yk_status yk_positions_number_last(yk_positions *p, yk_rows *rows);

#endif
