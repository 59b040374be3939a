#include "report/scale.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *word;
    double factor;
    bool prefix;
} units[] = {
#define UNIT(unit, word, factor, prefix, script) {word, factor, prefix},
    YK_UNIT_LIST(UNIT)};

static const char *const prefixes[] = {"", "k", "M", "G", "T"};

/* The prefix with which x has at most three digits before the point. */
static int prefix_of(double x)
{
    int k = 0;
    for (x = fabs(x); x >= 999.5 && k < 4; k++)
        x /= 1000.0;
    return k;
}

/* " MB/s": prefix k and a word, after a blank; "": neither. */
static void join_word(int k, const char *word, char *out /* [16] */)
{
    snprintf(out, 16, "%s%s%s", k || *word ? " " : "", prefixes[k], word);
}

/* Three significant digits without an exponent. */
static void three_digits(double x, char *out, const char *word)
{
    double size = fabs(x);
    int decimals = size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
    snprintf(out, YK_UNIT_SIZE, "%.*f%s", decimals, x, word);
}

/* A number of at most three digits, which is whole if x is; then `word`. */
static void with_prefix(double x, int k, char *out, const char *word)
{
    if (k == 0 && x == floor(x))
        snprintf(out, YK_UNIT_SIZE, "%.0f%s", x, word);
    else
        three_digits(x / pow(1e3, k), out, word);
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

const char *yk_unit_text(yk_unit unit, double x, char *out)
{
    char word[16];
    if (!isfinite(x))
        return strcpy(out, "\u2013");
    if (unit == YK_UNIT_BYTES || unit == YK_UNIT_RATE)
        x = floor(x + 0.5);
    const int k = units[unit].prefix ? prefix_of(x) : 0;
    join_word(k, units[unit].word, word);
    if (units[unit].prefix)
        with_prefix(x, k, out, word);
    else if (unit == YK_UNIT_PLAIN)
        plain(x, out);
    else if (unit == YK_UNIT_SHORT)
        snprintf(out, YK_UNIT_SIZE, "%.6g", x);
    else if (unit == YK_UNIT_INTEGER)
        with_commas(x, out);
    else if (unit == YK_UNIT_SECONDS)
        duration(x, out);
    else if (unit == YK_UNIT_TIMES)
        three_digits(x, out, word);
    else
        snprintf(out, YK_UNIT_SIZE, unit == YK_UNIT_POINTS ? "%+.*f%s" : "%.*f%s",
                 unit == YK_UNIT_PERCENT ? 0 : 2, x * units[unit].factor, word);
    return out;
}

void yk_unit_pair(yk_unit unit, double mean, double spread, char *mean_out, char *spread_out)
{
    char word[16];
    yk_unit_text(unit, mean, mean_out);
    yk_unit_text(unit, spread, spread_out);
    if (!isfinite(mean) || !isfinite(spread) || (unit == YK_UNIT_SECONDS && mean >= 99.95))
        return;
    const bool ms = unit == YK_UNIT_SECONDS && mean < 0.0995;
    const int k = units[unit].prefix ? prefix_of(mean) : 0;
    const double factor = ms ? 1e3 : units[unit].factor * pow(1e3, -k), s = spread * factor;
    join_word(k, ms ? "ms" : units[unit].word, word);
    const char *point = strchr(mean_out, '.');
    const int max = point ? (int)strspn(point + 1, "0123456789") : 0;
    int decimals = s > 0.0 ? 1 - (int)floor(log10(s)) : max; /* two digits of the deviation */
    decimals = decimals < 0 ? 0 : decimals > max ? max : decimals;
    if (unit != YK_UNIT_INTEGER)
        snprintf(mean_out, YK_UNIT_SIZE, unit == YK_UNIT_POINTS ? "%+.*f%s" : "%.*f%s", decimals,
                 mean * factor, word);
    snprintf(spread_out, YK_UNIT_SIZE, "%.*f%s", decimals, s, units[unit].prefix ? word : "");
    if (!strpbrk(spread_out, "123456789")) /* smaller than the last digit */
        *spread_out = 0;
}

/* ---- axes ---- */

/* The unit of the ticks of an axis up to `high`, and the factor to it. */
static double unit_of_axis(yk_unit unit, double high, char word_out[16])
{
    static const char *const counts[] = {"", "thousands", "millions", "billions"};
    const bool count = unit == YK_UNIT_COUNT || unit == YK_UNIT_INTEGER;
    if (unit == YK_UNIT_SECONDS) {
        const bool ms = high<0.5, minutes = high> 180.0, hours = high > 3 * 3600.0;
        strcpy(word_out, ms ? "milliseconds" : hours ? "hours" : minutes ? "minutes" : "seconds");
        return ms ? 1e3 : hours ? 1.0 / 3600.0 : minutes ? 1.0 / 60.0 : 1.0;
    }
    int k = high >= 2e9 ? 3 : high >= 2e6 ? 2 : high >= (count ? 2e4 : 2e3) ? 1 : 0;
    k = !count && high >= 2e12 ? 4 : k;
    const char *word = unit == YK_UNIT_CORES ? "cores" : units[unit].word;
    snprintf(word_out, 16, "%s%s", count ? counts[k] : units[unit].prefix ? prefixes[k] : "", word);
    return count || units[unit].prefix ? pow(1e3, -k) : units[unit].factor;
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
    yk_axis a = {.factor = 1.0};
    if (!(isfinite(low) && isfinite(high)) || low > high)
        low = 0.0, high = 1.0;
    if (high - low <= fabs(high) * 1e-12) { /* one value: add a margin */
        double margin = high != 0.0 ? fabs(high) * 0.5 : 1.0;
        high += margin;
        low = low >= 0.0 && low - margin < 0.0 ? 0.0 : low - margin;
    }
    a.factor = unit_of_axis(unit, fabs(high) > fabs(low) ? fabs(high) : fabs(low), a.word);
    double l = low * a.factor, h = high * a.factor;
    double step = round_step((h - l) / (want > 1 ? want : 2));
    if (unit == YK_UNIT_INTEGER && a.factor == 1.0)
        step = fmax(step, 1.0);
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
    yk_axis a = {.low = low, .high = high, .log = true, .factor = 1.0, .decimals = -1};
    if (!(low > 0.0 && high >= low && isfinite(high)))
        return yk_axis_make(unit, low, high, 5, false);
    if (low == high)
        a.low /= 2.0, a.high *= 2.0;
    /* powers of two for workers and batch sizes, powers of ten for larger ranges */
    double base = log2(a.high / a.low) <= 13.0 && unit == YK_UNIT_INTEGER ? 2.0 : 10.0;
    if (base == 10.0 && unit == YK_UNIT_PERCENT_EXACT)
        a.factor = 100.0, strcpy(a.word, "%");
    double from = floor(log(a.low) / log(base) + 1e-9), to = ceil(log(a.high) / log(base) - 1e-9),
           every = 1.0;
    static const double part[] = {1.0, 2.0, 5.0};
    int parts = 1;
    if (base == 10.0) { /* extended to 1, 2 or 5 times a power */
        a.low = 1.0 / round_step(1.0 / a.low);
        a.high = round_step(a.high);
        every = fmax(1.0, ceil((to - from) / 8.0));
        parts = to - from <= 2.0 ? 3 : 1;
    }
    for (double k = from; k <= to; k += every)
        for (int i = 0; i < parts; i++) {
            double x = part[i] * pow(base, k);
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

const char *yk_axis_text(const yk_axis *a, double x, char *out)
{
    x = x == 0.0 ? 0.0 : x * a->factor; /* not -0 */
    double size = fabs(x), large = a->decimals >= 0 ? 1e5 : 1e4;
    if (size >= large && size < 1e14)
        with_prefix(x, prefix_of(x), out, prefixes[prefix_of(x)]);
    else if (size >= large || a->decimals > 6 || (a->decimals < 0 && size < 1e-3))
        snprintf(out, YK_UNIT_SIZE, "%.3g", x);
    else if (a->decimals < 0)
        snprintf(out, YK_UNIT_SIZE, "%.4g", x);
    else if (a->decimals == 0)
        with_commas(floor(x + 0.5), out);
    else
        snprintf(out, YK_UNIT_SIZE, "%.*f", a->decimals, x);
    return strcmp(out, "-0") ? out : strcpy(out, "0");
}
