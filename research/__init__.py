"""Research on unskew, not part of the package: the papers reproduced, simulations, workloads, the planners compared."""
