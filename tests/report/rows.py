#!/usr/bin/env python3
"""Draw rows for the model tests/zoo/churn, with labels, for reports and comparisons of tables that people look at.

The columns are distributed as those of the training (`tests/zoo/make.py`). `--older` makes customers so many years
older, and `--dearer` multiplies the monthly charge. It needs numpy.

Example:
  python3 tests/report/rows.py train.csv --rows 20000
  python3 tests/report/rows.py today.csv --rows 5000 --seed 2 --older 6 --dearer 1.1
"""

import argparse

import numpy as np

NAMES = """age tenure_months contract_months_left monthly_charge total_charge discount_percent late_payments
support_calls days_since_last_call data_gb roaming_minutes devices churned""".split()


def draw(n, seed, older, dearer):
    rng = np.random.RandomState(seed)
    tenure = rng.gamma(2, 15, n).clip(1, 120).round()
    left = (rng.choice([0, 12, 24], n, p=[0.45, 0.35, 0.2]) - tenure % 12).clip(0)
    charge = ((rng.gamma(6, 8, n) + 9) * dearer).round(2)
    late, calls = rng.poisson(0.6, n), rng.poisson(1.1, n)
    age = (rng.normal(44, 15, n).clip(18, 92) + older).round()
    age[rng.uniform(size=n) < 0.07] = np.nan
    data = rng.gamma(2, 6, n).round(1)
    data[rng.uniform(size=n) < 0.05] = np.nan
    devices = 1 + rng.poisson(0.8, n)
    logit = 0.5 * calls + 0.6 * late + 0.025 * (charge - 57) - 0.03 * tenure - 0.08 * left - 0.2 * devices - 0.9
    columns = [
        age,
        tenure,
        left,
        charge,
        (charge * tenure * rng.uniform(0.9, 1.05, n)).round(2),
        rng.choice([0, 0, 0, 5, 10, 20], n),
        late,
        calls,
        np.where(calls > 0, rng.randint(0, 90, n), np.nan),
        data,
        np.where(rng.uniform(size=n) < 0.7, 0, rng.gamma(1.5, 30, n)).round(),
        devices,
        rng.uniform(size=n) < 1 / (1 + np.exp(-logit)),
    ]
    return np.stack(columns, axis=1).astype(np.float64)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--older", type=float, default=0)
    parser.add_argument("--dearer", type=float, default=1)
    args = parser.parse_args()
    with open(args.out, "w", encoding="utf-8") as out:
        out.write(",".join(NAMES) + "\n")
        for row in draw(args.rows, args.seed, args.older, args.dearer):
            out.write(",".join("" if np.isnan(value) else f"{value:g}" for value in row) + "\n")


if __name__ == "__main__":
    main()
