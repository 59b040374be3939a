"""Tests of the performance model (bench/model.py): its arithmetic on round numbers, and the recorded costs.

    python3 tests/bench_model.py
"""
import json
import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "bench"))
import model  # noqa: E402

COSTS = {"alone": 100e-9, "work": 100e-9, "busy": 0.5, "copy": 5e-9, "serve": 10e-9, "serve_tcp": 20e-9, "message": 0.0, "keys": 10.0, "copy_examples": 1000}


def job(hosts, processes=1, threads=4, cores=64, link=0.0):
    return {"hosts": hosts, "processes": processes, "threads": threads, "cores": cores, "link": link}


class Model(unittest.TestCase):
    def close(self, got, expected):
        self.assertAlmostEqual(got / expected, 1, places=9)

    def test_one_process_has_nobody_to_wait_for(self):
        self.close(model.predict(COSTS, job(1))[0], 40e6)

    def test_limits(self):
        found = model.limits(COSTS, job(2, link=10e9))
        hot = model.hottest(10_000, 2)
        self.close(found["compute"], 8 / 150e-9)
        serve = (model.OWN * 10e-9 + 20e-9) / 2  # of its own keys, and of those of the other host
        self.close(found["serving"], 2 / (10 * serve * hot))
        self.close(found["cores"], 64 / (150e-9 + 10 * serve))
        # half of the keys are on the other host; 2 messages of 192 bytes in 1,000 examples
        self.close(found["network"], 2 * 0.94 * 1.25e9 / (0.5 * (10 * (8 + 4 * hot) + 0.384)))

    def test_the_least_limit_counts(self):
        self.assertEqual(model.predict(COSTS, job(2))[1], "serving")
        self.assertEqual(model.predict(COSTS, job(2, threads=1))[1], "compute")
        self.assertEqual(model.predict(COSTS, job(2, cores=1))[1], "cores")
        self.assertEqual(model.predict(COSTS, job(2, link=1e9))[1], "network")

    def test_processes_of_one_host_need_no_network(self):
        self.assertNotIn("network", model.limits(COSTS, job(1, processes=4, link=1e9)))

    def test_keys_of_the_same_process_and_host_cost_less(self):
        self.close(model.serving(COSTS, job(2, processes=2)), (3e-9 + 10e-9 + 2 * 20e-9) / 4)
        self.close(model.serving(COSTS, {**job(1, processes=4), "tcp": True}), (3e-9 + 3 * 20e-9) / 4)

    def test_messages_limit_large_jobs(self):
        # each shard gets a message of each copy: at most E / (4 message) examples/s, whatever the number of hosts
        slow = {**COSTS, "message": 1e-6}
        rates = [model.predict(slow, job(n))[0] for n in (10, 100, 1000, 10000)]
        self.assertEqual(rates, sorted(rates))
        self.assertLess(rates[-1], 1000 / 4e-6)

    def test_the_hottest_shard(self):
        self.assertEqual(model.hottest(1000, 1), 1.0)
        self.assertLess(model.hottest(100_000, 10), model.hottest(100_000, 1000))
        self.assertLess(model.hottest(100_000, 100), model.hottest(10_000, 100))

    def test_calibration_recovers_the_costs(self):
        known = {**COSTS, "copy": model.COPY * COSTS["serve"], "busy": 0.4}
        runs = [{"use": "alone", "processes": 1, "threads": 4, "cores": 64}]
        runs += [{"use": use, "processes": n, "threads": t, "cores": 64, "keys": 10.0, "copy_examples": 1000, "transport": over}
                 for use, n, t, over in (("work", 2, 1, "memory"), ("serve", 2, 8, "memory"), ("busy", 32, 8, "memory"),
                                         ("check", 4, 4, "memory"), ("tcp", 4, 4, "tcp"), ("check", 8, 1, "tcp"))]
        for run in runs:
            run["rate"] = model.predict(model.costs_of(known, run), model.one_host(run))[0]
        found = model.calibrate(runs, message=0.0)
        for key in ("alone", "work", "copy", "serve", "serve_tcp", "busy"):
            self.assertAlmostEqual(found[key] * 1e9, known[key] * 1e9, places=6)
        self.assertLess(max(abs(error) for *_, error in model.check(found)), 1e-6)


class Recorded(unittest.TestCase):
    def setUp(self):
        with open(os.path.join(ROOT, "bench", "costs.json"), encoding="utf-8") as f:
            self.costs = model.calibrate(json.load(f)["runs"])

    def test_the_checks_are_within_15_percent(self):
        errors = [error for run, _, _, error in model.check(self.costs) if run["use"] == "check"]
        self.assertGreaterEqual(len(errors), 2)
        self.assertLess(max(map(abs, errors)), 0.15)

    def test_the_page_shows_what_the_model_predicts(self):
        with open(os.path.join(ROOT, "docs", "performance-model.md"), encoding="utf-8") as f:
            page = f.read().splitlines()
        for line in [*model.check_table(self.costs), *model.cluster_table(self.costs, 4, 4, 16)]:
            self.assertIn(line, page, "run ./dev bench model --costs bench/costs.json, and copy its tables to the page")


if __name__ == "__main__":
    unittest.main()
