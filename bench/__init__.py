"""The comparison workload: Sluice beside the jobs that people write by hand."""
