"""The data plane on Spark: plan epochs, copy raw batches, commit positions, resume."""
