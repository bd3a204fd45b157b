"""Research that is not part of the package: the papers reproduced, simulations, workloads, a planner tournament."""
