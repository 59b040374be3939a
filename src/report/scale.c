#include "report/scale.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Three significant digits without an exponent. */
static void three_digits(double x, char *out, const char *word)
{
    double size = fabs(x);
    int decimals = size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
    snprintf(out, YK_UNIT_SIZE, "%.*f%s", decimals, x, word);
}

static void scaled(double x, char *out, const char *const *words, const char *tail)
{
    int k = 0;
    for (; fabs(x) >= 999.5 && words[k + 1]; k++)
        x /= 1000.0;
    char word[16];
    snprintf(word, sizeof word, "%s%s", words[k], tail);
    if (k == 0 && x == floor(x))
        snprintf(out, YK_UNIT_SIZE, "%.0f%s", x, word);
    else
        three_digits(x, out, word);
}

static void with_commas(double x, char *out)
{
    char digits[YK_UNIT_SIZE];
    if (fabs(x) >= 1e15) {
        snprintf(out, YK_UNIT_SIZE, "%.3g", x);
        return;
    }
    int n = snprintf(digits, sizeof digits, "%.0f", fabs(x)), k = 0;
    if (x < 0)
        out[k++] = '-';
    for (int i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0)
            out[k++] = ',';
        out[k++] = digits[i];
    }
    out[k] = 0;
}

static void plain(double x, char *out)
{
    double size = fabs(x);
    if (size != 0.0 && (size < 1e-4 || size >= 1e6))
        snprintf(out, YK_UNIT_SIZE, "%.3g", x);
    else
        snprintf(out, YK_UNIT_SIZE, "%.*f", size >= 100.0 ? 1 : size >= 10.0 ? 2 : size >= 1.0 ? 3 : 4, x);
}

static void duration(double x, char *out)
{
    if (x < 0.0995)
        snprintf(out, YK_UNIT_SIZE, "%.0f ms", x * 1e3);
    else if (x < 99.95)
        three_digits(x, out, " s");
    else if (x < 3599.5)
        snprintf(out, YK_UNIT_SIZE, "%d:%02d min", (int)(x + 0.5) / 60, (int)(x + 0.5) % 60);
    else
        snprintf(out, YK_UNIT_SIZE, "%.0f:%02d h", floor((x + 30.0) / 3600.0),
                 (int)(fmod(x + 30.0, 3600.0) / 60.0));
}

void yk_unit_text(yk_unit unit, double x, char *out)
{
    static const char *const si[] = {"", " k", " M", " G", " T", NULL}, *const bytes[] = {" B",  " kB", " MB",
                                                                                          " GB", " TB", NULL};
    if (!isfinite(x)) {
        strcpy(out, "\u2013");
        return;
    }
    switch (unit) {
    case YK_UNIT_PLAIN:
        plain(x, out);
        break;
    case YK_UNIT_SHORT:
        snprintf(out, YK_UNIT_SIZE, "%.6g", x);
        break;
    case YK_UNIT_COUNT:
        scaled(x, out, si, "");
        break;
    case YK_UNIT_INTEGER:
        with_commas(x, out);
        break;
    case YK_UNIT_PERCENT_EXACT:
        snprintf(out, YK_UNIT_SIZE, "%.2f %%", x * 100.0);
        break;
    case YK_UNIT_PERCENT:
        snprintf(out, YK_UNIT_SIZE, "%.0f %%", x * 100.0);
        break;
    case YK_UNIT_SECONDS:
        duration(x, out);
        break;
    case YK_UNIT_BYTES:
        scaled(floor(x + 0.5), out, bytes, "");
        break;
    case YK_UNIT_RATE:
        scaled(floor(x + 0.5), out, bytes, "/s");
        break;
    case YK_UNIT_CORES:
        snprintf(out, YK_UNIT_SIZE, "%.2f", x);
        break;
    case YK_UNIT_TIMES:
        three_digits(x, out, " \u00d7");
        break;
    case YK_UNIT_POINTS:
        snprintf(out, YK_UNIT_SIZE, "%+.2f", x * 100.0);
        break;
    }
}

/* The factor and the word of the unit in which a mean is written. */
static double unit_of(yk_unit unit, double mean, const char **word_out)
{
    static const char *const si[] = {"", " k", " M", " G", " T"},
                             *const bytes[] = {" B", " kB", " MB", " GB", " TB"},
                             *const rates[] = {" B/s", " kB/s", " MB/s", " GB/s", " TB/s"};
    int k = 0;
    *word_out = "";
    switch (unit) {
    case YK_UNIT_COUNT:
    case YK_UNIT_INTEGER:
    case YK_UNIT_BYTES:
    case YK_UNIT_RATE:
        for (double x = fabs(mean); x >= 999.5 && k < 4 && unit != YK_UNIT_INTEGER; x /= 1000.0)
            k++;
        *word_out = (unit == YK_UNIT_BYTES ? bytes : unit == YK_UNIT_RATE ? rates : si)[k];
        return pow(1e3, -k);
    case YK_UNIT_PERCENT_EXACT:
    case YK_UNIT_PERCENT:
        *word_out = " %";
        return 100.0;
    case YK_UNIT_POINTS:
        return 100.0;
    case YK_UNIT_SECONDS:
        *word_out = mean < 0.0995 ? " ms" : " s";
        return mean < 0.0995 ? 1e3 : 1.0;
    case YK_UNIT_TIMES:
        *word_out = " \u00d7";
        return 1.0;
    default:
        return 1.0;
    }
}

void yk_unit_pair(yk_unit unit, double mean, double spread, char *mean_out, char *spread_out)
{
    const char *word, *shown;
    yk_unit_text(unit, mean, mean_out);
    yk_unit_text(unit, spread, spread_out);
    if (!isfinite(mean) || !isfinite(spread) || (unit == YK_UNIT_SECONDS && mean >= 99.95))
        return;
    const double factor = unit_of(unit, mean, &word), x = mean * factor, s = spread * factor;
    const char *point = strchr(mean_out, '.');
    const int max = point ? (int)strspn(point + 1, "0123456789") : 0;
    int decimals = s > 0.0 ? 1 - (int)floor(log10(s)) : max; /* two digits of the deviation */
    decimals = decimals < 0 ? 0 : decimals > max ? max : decimals;
    shown = unit == YK_UNIT_COUNT || unit == YK_UNIT_BYTES || unit == YK_UNIT_RATE ? word : "";
    snprintf(mean_out, YK_UNIT_SIZE, unit == YK_UNIT_POINTS ? "%+.*f%s" : "%.*f%s", decimals, x, word);
    snprintf(spread_out, YK_UNIT_SIZE, "%.*f%s", decimals, s, shown);
    if (unit == YK_UNIT_INTEGER)
        with_commas(mean, mean_out);
    if (!strpbrk(spread_out, "123456789")) /* smaller than the last digit */
        *spread_out = 0;
}

/* ---- axes ---- */

/* The unit of the ticks of an axis up to `high`, and the factor to it. */
static double unit_of_axis(yk_unit unit, double high, const char **word_out)
{
    *word_out = "";
    switch (unit) {
    case YK_UNIT_PERCENT_EXACT:
    case YK_UNIT_PERCENT:
        *word_out = "%";
        return 100.0;
    case YK_UNIT_SECONDS:
        *word_out = high < 0.5           ? "milliseconds"
                    : high <= 180.0      ? "seconds"
                    : high <= 3 * 3600.0 ? "minutes"
                                         : "hours";
        return high < 0.5 ? 1e3 : high <= 180.0 ? 1.0 : high <= 3 * 3600.0 ? 1.0 / 60.0 : 1.0 / 3600.0;
    case YK_UNIT_BYTES:
    case YK_UNIT_RATE: {
        static const char *const words[][2] = {
            {"B", "B/s"}, {"kB", "kB/s"}, {"MB", "MB/s"}, {"GB", "GB/s"}, {"TB", "TB/s"}};
        int k = high >= 2e12 ? 4 : high >= 2e9 ? 3 : high >= 2e6 ? 2 : high >= 2e3 ? 1 : 0;
        *word_out = words[k][unit == YK_UNIT_RATE];
        return pow(1e3, -k);
    }
    case YK_UNIT_COUNT:
    case YK_UNIT_INTEGER:
        *word_out = high >= 2e9 ? "billions" : high >= 2e6 ? "millions" : high >= 2e4 ? "thousands" : "";
        return high >= 2e9 ? 1e-9 : high >= 2e6 ? 1e-6 : high >= 2e4 ? 1e-3 : 1.0;
    case YK_UNIT_CORES:
        *word_out = "cores";
        return 1.0;
    case YK_UNIT_TIMES:
        *word_out = "\u00d7";
        return 1.0;
    default:
        return 1.0;
    }
}

/* The smallest 1, 2 or 5 times a power of ten that is at least x. */
static double round_step(double x)
{
    double power = pow(10.0, floor(log10(x)));
    double part = x / power;
    return (part <= 1.0 + 1e-9 ? 1.0 : part <= 2.0 + 1e-9 ? 2.0 : part <= 5.0 + 1e-9 ? 5.0 : 10.0) * power;
}

yk_axis yk_axis_make(yk_unit unit, double low, double high, int want, bool snug)
{
    yk_axis a = {.factor = 1.0, .word = ""};
    if (!(isfinite(low) && isfinite(high)) || low > high)
        low = 0.0, high = 1.0;
    if (high - low <= fabs(high) * 1e-12) { /* one value: add a margin */
        double margin = high != 0.0 ? fabs(high) * 0.5 : 1.0;
        high += margin;
        low = low >= 0.0 && low - margin < 0.0 ? 0.0 : low - margin;
    }
    a.factor = unit_of_axis(unit, fabs(high) > fabs(low) ? fabs(high) : fabs(low), &a.word);
    double l = low * a.factor, h = high * a.factor;
    double step = round_step((h - l) / (want > 1 ? want : 2));
    if ((unit == YK_UNIT_INTEGER || unit == YK_UNIT_COUNT) && a.factor == 1.0 && step < 1.0)
        step = unit == YK_UNIT_INTEGER ? 1.0 : step;
    double first = ceil(l / step - 1e-9), last = floor(h / step + 1e-9);
    if (!snug) {
        first = floor(l / step + 1e-9);
        last = ceil(h / step - 1e-9);
        low = first * step / a.factor;
        high = last * step / a.factor;
    }
    a.low = low;
    a.high = high;
    for (double k = first; k <= last && a.ticks < YK_AXIS_TICKS; k++)
        a.tick[a.ticks++] = k * step / a.factor;
    double digits = -floor(log10(step) + 1e-9);
    a.decimals = digits > 0.0 ? (int)fmin(digits, 9.0) : 0;
    return a;
}

yk_axis yk_axis_log(yk_unit unit, double low, double high)
{
    yk_axis a = {.low = low, .high = high, .log = true, .factor = 1.0, .decimals = -1, .word = ""};
    if (!(low > 0.0 && high >= low && isfinite(high)))
        return yk_axis_make(unit, low, high, 5, false);
    if (low == high)
        a.low /= 2.0, a.high *= 2.0;
    /* powers of two for workers and batch sizes, powers of ten for larger ranges */
    double base = log2(a.high / a.low) <= 13.0 && unit == YK_UNIT_INTEGER ? 2.0 : 10.0;
    if (base == 10.0 && unit == YK_UNIT_PERCENT_EXACT)
        a.factor = 100.0, a.word = "%";
    double from = floor(log(a.low) / log(base) + 1e-9), to = ceil(log(a.high) / log(base) - 1e-9);
    if (base == 10.0) { /* extended to 1, 2 or 5 times a power */
        static const double part[] = {1.0, 2.0, 5.0, 10.0};
        double floor_power = pow(10.0, floor(log10(a.low))), top_power = pow(10.0, floor(log10(a.high)));
        for (int i = 0; i < 4; i++)
            if (part[i] * floor_power <= a.low * (1.0 + 1e-9))
                low = part[i] * floor_power;
        for (int i = 3; i >= 0; i--)
            if (part[i] * top_power >= a.high * (1.0 - 1e-9))
                high = part[i] * top_power;
        a.low = low;
        a.high = high;
        double every = ceil((to - from) / 8.0);
        bool parts = to - from <= 2.0;
        for (double k = from; k <= to; k += every < 1.0 ? 1.0 : every)
            for (int i = 0; i < (parts ? 3 : 1); i++) {
                double x = part[i] * pow(10.0, k);
                if (x >= a.low * (1.0 - 1e-9) && x <= a.high * (1.0 + 1e-9) && a.ticks < YK_AXIS_TICKS)
                    a.tick[a.ticks++] = x;
            }
        return a;
    }
    for (double k = from; k <= to; k++) {
        double x = pow(2.0, k);
        if (x >= a.low * (1.0 - 1e-9) && x <= a.high * (1.0 + 1e-9) && a.ticks < YK_AXIS_TICKS)
            a.tick[a.ticks++] = x;
    }
    return a;
}

double yk_axis_at(const yk_axis *a, double x)
{
    if (a->log)
        return x > 0.0 ? (log(x) - log(a->low)) / (log(a->high) - log(a->low)) : 0.0;
    return (x - a->low) / (a->high - a->low);
}

void yk_axis_text(const yk_axis *a, double x, char *out)
{
    static const char *const si[] = {"", "k", "M", "G", "T", NULL};
    x = x == 0.0 ? 0.0 : x * a->factor; /* not -0 */
    double size = fabs(x), large = a->decimals >= 0 ? 1e5 : 1e4;
    if (size >= large && size < 1e14)
        scaled(x, out, si, "");
    else if (size >= large || a->decimals > 6 || (a->decimals < 0 && size < 1e-3))
        snprintf(out, YK_UNIT_SIZE, "%.3g", x);
    else if (a->decimals < 0)
        snprintf(out, YK_UNIT_SIZE, "%.4g", x);
    else if (a->decimals == 0)
        with_commas(floor(x + 0.5), out);
    else
        snprintf(out, YK_UNIT_SIZE, "%.*f", a->decimals, x);
    if (!strcmp(out, "-0"))
        strcpy(out, "0");
}
