"""MirrorMaker 1 (``kafka-mirror-maker.sh``): a consumer group on the source, producers on the target, nothing else."""
