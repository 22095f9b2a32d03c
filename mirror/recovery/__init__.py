"""Failover and failback: moving applications and their groups from one cluster to the other, and back again."""
