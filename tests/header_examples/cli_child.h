#include "cli/cli.h"

#include <stdio.h>
