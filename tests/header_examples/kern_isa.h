#include "kern/linear.h"
