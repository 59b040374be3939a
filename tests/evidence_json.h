#include "observe/verdict.h"

void evidence_json(yk_json *j, const yk_evidence *e);
