"""The load and the readers of a practice run as the applications that the procedure moves: one for all who practise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mirror.lab.applications import Deployment
from mirror.lab.stage import Stage
from mirror.recovery.applications import Answer, Done, NotDone


@dataclass(frozen=True, slots=True)
class LabApplications:
    """See `mirror.recovery.applications.Applications`; what they did is reported by their ledger.

    Attributes
    ----------
    deployments
        what runs on each cluster when the applications are there.
    seconds
        how long the first write, and the first reads, are waited for.
    """

    stage: Stage
    deployments: Mapping[str, Deployment]
    seconds: float = 300.0

    def stop(self, cluster: str) -> Answer:
        """See `Applications`."""
        killed = self.stage.stop_applications(self.deployments[cluster])
        return Done(f"the applications on {cluster} are stopped" + (f"; killed: {', '.join(killed)}" if killed else ""))

    def start(self, cluster: str) -> Answer:
        """See `Applications`."""
        self.stage.start_applications(self.deployments[cluster])
        return Done(f"the applications on {cluster} are started")

    def first_write(self, cluster: str, since_ms: int) -> Answer:
        """See `Applications`."""
        self.start(cluster)
        found = self._service(cluster, (), since_ms)[0]
        return self._seen(found, f"{cluster} has accepted a write")

    def first_reads(self, cluster: str, groups: Sequence[str], since_ms: int) -> Mapping[str, Answer]:
        """See `Applications`."""
        self.start(cluster)
        found = self._service(cluster, groups, since_ms)[1]
        return {group: self._seen(found.get(group), f"group {group} reads on {cluster}") for group in groups}

    def stop_part(self, cluster: str, group: str | None) -> Answer:
        """See `Applications`."""
        killed = self.stage.stop_applications(self._part(cluster, group))
        return Done(f"stopped on {cluster}" + (f"; killed: {', '.join(killed)}" if killed else ""))

    def start_part(self, cluster: str, group: str | None) -> Answer:
        """See `Applications`."""
        self.stage.start_applications(self._part(cluster, group))
        return Done(f"started on {cluster}")

    def group_reads(self, cluster: str, group: str, since_ms: int) -> Answer:
        """See `Applications`."""
        self.start_part(cluster, group)
        found = self.stage.await_read(cluster, group, since_ms=since_ms, seconds=self.seconds)
        return self._seen(found, f"group {group} reads on {cluster}")

    def _part(self, cluster: str, group: str | None) -> Deployment:
        all_of_them = self.deployments[cluster]
        if group is None:
            return replace(all_of_them, groups=())
        return replace(all_of_them, loads=(), groups=tuple(each for each in all_of_them.groups if each.name == group))

    def _service(
        self, cluster: str, groups: Sequence[str], since_ms: int
    ) -> tuple[int | None, Mapping[str, int | None]]:
        """Wait for it; return when the cluster accepted a write, and each group read one that it had accepted."""
        topics = {topic for load in self.deployments[cluster].loads for topic in load.topics}
        found = self.stage.await_service(cluster, topics, groups, since_ms=since_ms, seconds=self.seconds)
        return found.first_write_at_ms, found.groups_reading_at_ms

    def _seen(self, at_ms: int | None, what: str) -> Answer:
        # What was stopped meanwhile is started again by whoever takes the run up: a resumed run asks once more.
        if at_ms is None:
            return NotDone(f"not within {self.seconds:g} s: {what}")
        return Done(f"by the ledger {what}", at_ms)
