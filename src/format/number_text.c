/* The texts of numbers of Parquet files and Arrow arrays; see parquet.h. */
#include "base/number.h"
#include "format/parquet.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void yk_parquet_number_text(const yk_parquet_values *v, size_t i, char out[YK_PARQUET_TEXT_SIZE])
{
    const int bits = v->form == YK_PARQUET_HALF    ? 11
                     : v->form == YK_PARQUET_FLOAT ? FLT_MANT_DIG
                                                   : DBL_MANT_DIG;
    *out = 0;
    if ((v->valid && !v->valid[i]) || (v->real && isnan(v->real[i])))
        return;
    if (v->real)
        yk_number_shortest(v->real[i], bits, out, YK_PARQUET_TEXT_SIZE);
    else if (v->integer && v->form == YK_PARQUET_BOOLEAN)
        strcpy(out, v->integer[i] ? "true" : "false");
    else if (v->integer)
        snprintf(out, YK_PARQUET_TEXT_SIZE, v->form == YK_PARQUET_UNSIGNED ? "%llu" : "%lld",
                 (long long)v->integer[i]);
}
