"""The cycle: observe, decide, execute, settle. The core is pure; the shells know ports, not adapters."""
