"""Runs the functions test_* of a module, all or those that are named on the command line."""
import sys
import time
import traceback


def main(names):
    failed = 0
    for name, function in list(names.items()):
        if not name.startswith("test_") or (sys.argv[1:] and name not in sys.argv[1:]):
            continue
        began = time.perf_counter()
        try:
            function()
            print(f"ok {name} ({time.perf_counter() - began:.1f} s)", flush=True)
        except Exception:
            traceback.print_exc()
            print(f"FAILED {name}", flush=True)
            failed += 1
    sys.exit(failed > 0)
