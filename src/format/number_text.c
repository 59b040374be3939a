/* The texts of numbers of Parquet files and Arrow arrays; see parquet.h. */
#include "base/number.h"
#include "format/parquet.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* "2024-02-29"; false: not in the years 1 to 9999. Years begin in March here, so that a leap day is the last day of a year; 400 of
 * them have 146097 days. */
static bool date_text(int64_t days, char out[YK_PARQUET_TEXT_SIZE])
{
    enum { FIRST = -719162, LAST = 2932896, BEFORE_1970 = 719468, PERIOD = 146097 };
    if (days < FIRST || days > LAST)
        return false;
    const int n = (int)days + BEFORE_1970, day = n % PERIOD;
    const int year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    const int day_of_year = day - (365 * year + year / 4 - year / 100), month = (5 * day_of_year + 2) / 153;
    snprintf(out, YK_PARQUET_TEXT_SIZE, "%04d-%02d-%02d", n / PERIOD * 400 + year + (month >= 10),
             month < 10 ? month + 3 : month - 9, day_of_year - (153 * month + 2) / 5 + 1);
    return true;
}

/* "2024-02-29 12:30:00.5", to the microsecond, which a double can represent. */
static bool time_text(double seconds, char out[YK_PARQUET_TEXT_SIZE])
{
    const int64_t day = 86400000000, at = fabs(seconds) < 1e12 ? llround(seconds * 1e6) : INT64_MAX;
    const int64_t days = at / day - (at % day < 0), micros = at - days * day, second = micros / 1000000;
    if (!date_text(days, out))
        return false;
    size_t n = strlen(out);
    n += (size_t)snprintf(out + n, YK_PARQUET_TEXT_SIZE - n, " %02d:%02d:%02d.%06d", (int)(second / 3600),
                          (int)(second / 60 % 60), (int)(second % 60), (int)(micros % 1000000));
    while (out[n - 1] == '0')
        out[--n] = 0;
    out[n - (out[n - 1] == '.')] = 0;
    return true;
}

void yk_parquet_number_text(const yk_parquet_values *v, size_t i, char out[YK_PARQUET_TEXT_SIZE])
{
    const int bits = v->form == YK_PARQUET_HALF    ? 11
                     : v->form == YK_PARQUET_FLOAT ? FLT_MANT_DIG
                                                   : DBL_MANT_DIG;
    *out = 0;
    if ((v->valid && !v->valid[i]) || (v->real && isnan(v->real[i])))
        return;
    if ((v->integer && v->form == YK_PARQUET_DATE && date_text(v->integer[i], out)) ||
        (v->real && v->form == YK_PARQUET_TIME && time_text(v->real[i], out)))
        return;
    if (v->real)
        yk_number_shortest(v->real[i], bits, out, YK_PARQUET_TEXT_SIZE);
    else if (v->integer && v->form == YK_PARQUET_BOOLEAN)
        strcpy(out, v->integer[i] ? "true" : "false");
    else if (v->integer)
        snprintf(out, YK_PARQUET_TEXT_SIZE, v->form == YK_PARQUET_UNSIGNED ? "%llu" : "%lld",
                 (long long)v->integer[i]);
}
