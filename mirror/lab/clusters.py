"""A lab: clusters to practise on, of any kind, remembered in a directory.

``up`` starts what is missing and remembers it in ``lab.json``; ``load`` gives any other process handles on the same
clusters; ``down`` ends what ``up`` has started. Data stay, so that ``up`` brings the same clusters back, unless told
otherwise.
"""

from __future__ import annotations

import functools
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, astuple, dataclass
from enum import StrEnum
from itertools import chain, islice
from pathlib import Path
from typing import Any, Protocol

from mirror.lab import class_archive, containers, existing, ports
from mirror.lab.brokers import (
    ClusterLayout,
    EmbeddedCluster,
    LinkPorts,
    Node,
    new_cluster_id,
    plan_layout,
    ports_needed,
)
from mirror.lab.containers import ContainerBroker, ContainerCluster
from mirror.lab.errors import BadRequest, LabError
from mirror.lab.existing import ExistingCluster
from mirror.lab.runtime import KafkaRuntime
from mirror.model.counts import counted
from mirror.model.progress import Watch, nobody

_ALIAS = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


class LabBroker(Protocol):
    """One broker of a lab's cluster."""

    @property
    def address(self) -> str:
        """Return ``host:port``."""

    def is_alive(self) -> bool:
        """Tell whether it runs."""

    def start(self) -> None:
        """Start it, unless it runs, and return when it serves clients."""

    def kill(self) -> None:
        """``kill -9`` it, unless it does not run; return when it is gone."""


class LabCluster(Protocol):
    """A cluster of a lab. An existing one refuses ``kill`` with ``ClusterRefusal``."""

    @property
    def provider(self) -> str:
        """Return what kind of cluster it is: ``embedded``, ``containers``, ``existing``."""

    @property
    def alias(self) -> str:
        """Return its short name."""

    @property
    def bootstrap_servers(self) -> str:
        """Return its addresses, comma-separated; they stay the same over restarts."""

    @property
    def brokers(self) -> Sequence[LabBroker]:
        """Return its brokers."""

    def is_alive(self) -> bool:
        """Tell whether all its brokers run."""

    def start(self, watch: Watch = nobody) -> None:
        """Start its brokers, with the data and addresses they had, and return when all serve clients."""

    def kill(self) -> None:
        """``kill -9`` all its brokers."""

    def shut_down(self) -> tuple[str, ...]:
        """End what the lab has started of it; return what did not go as it should."""

    def discard(self) -> None:
        """Remove the data that the lab keeps of it."""


class Provider(StrEnum):
    """Where clusters come from."""

    EMBEDDED = "embedded"
    CONTAINERS = "containers"
    EXISTING = "existing"


@dataclass(frozen=True, slots=True)
class Lab:
    """The clusters of a directory, by alias."""

    directory: Path
    clusters: Mapping[str, LabCluster]


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """What ``lab.json`` remembers of a cluster: a layout, or for an existing cluster its addresses."""

    provider: Provider
    alias: str
    layout: ClusterLayout | None = None
    bootstrap_servers: str | None = None


def up(
    directory: Path,
    aliases: Sequence[str],
    *,
    brokers: int = 1,
    owner_pid: int | None = None,
    provider: Provider = Provider.EMBEDDED,
    bootstrap: Mapping[str, str] | None = None,
    linked: Collection[str] = (),
    secured: Collection[str] = (),
    for_load: bool = False,
    watch: Watch = nobody,
) -> Lab:
    """Bring clusters up, side by side, and return when all serve clients.

    Clusters that the directory knows are started again with their data and addresses, whatever runs is left as it is.

    Parameters
    ----------
    directory
        the lab's; created if missing.
    aliases
        the clusters' short names.
    brokers
        brokers a cluster.
    owner_pid
        the process whose end, clean or not, ends the brokers; None: they run until ``down``.
    provider
        where clusters come from.
    bootstrap
        addresses of existing clusters by alias; an alias with an address is an existing cluster whatever ``provider``.
    linked
        aliases of embedded clusters that can also be reached through links, which can be made long or cut: at
        ``EmbeddedCluster.linked_servers``.
    secured
        aliases of embedded clusters whose brokers look up who may do what. Users log in at
        ``EmbeddedCluster.secured_servers``; at the usual addresses everybody stays free to do everything.
    for_load
        whether the brokers of new embedded clusters are made for minutes of heavy load; others are up and quiet sooner.
    watch
        told how far it is, from several threads.

    Raises
    ------
    LabError
        with a message that says what to do; clusters that this call started are ended again.
    """
    directory = directory.absolute()
    known = _read_records(directory)[1] if _state_path(directory).exists() else {}
    nodes = [node for record in known.values() if record.layout is not None for node in record.layout.nodes]
    taken = {
        port
        for node in nodes
        for port in (node.port, node.controller_port, node.secured_port, *(astuple(node.link) if node.link else ()))
    }
    choose_ports = functools.partial(ports.choose, free=lambda port: port not in taken and ports.claim(port))
    wanted = plan_records(
        known, aliases, brokers, provider, bootstrap or {}, choose_ports, linked, secured, for_load=for_load
    )
    providers = {wanted[alias].provider for alias in aliases}
    if Provider.CONTAINERS in providers:
        with containers.docker():  # that there is no Docker is noticed before anything is written,
            pass
    for alias in aliases:
        if wanted[alias].provider is Provider.EXISTING:  # and so is that a cluster is not there
            _open(wanted[alias], directory, owner_pid, class_archive.ready).start(watch)
    if Provider.EMBEDDED in providers:
        class_archive.prepare(watch)
    _write_records(directory, owner_pid, wanted)
    lab = load(directory)
    to_start = [lab.clusters[alias] for alias in aliases]
    were_down = [cluster for cluster in to_start if not cluster.is_alive()]
    try:
        with ThreadPoolExecutor(len(to_start)) as pool:
            # Of one that runs there is nothing to be told.
            watches = {cluster.alias: watch for cluster in were_down}
            for start in [pool.submit(each.start, watches.get(each.alias, nobody)) for each in to_start]:
                start.result()
    except BaseException:  # an interruption too leaves nothing behind
        for cluster in were_down:
            cluster.shut_down()
        raise
    return lab


def exists(directory: Path) -> bool:
    """Tell whether there is a lab in a directory."""
    return _state_path(directory.absolute()).exists()


def load(directory: Path, *, owner_pid: int | None = None) -> Lab:
    """Return handles on the clusters of a directory, running or not.

    What is started by them belongs to ``owner_pid``, and if there is none to whom it belonged before.

    Raises
    ------
    LabError
        if there is no lab.
    """
    directory = directory.absolute()
    before, records = _read_records(directory)
    owner_pid = before if owner_pid is None else owner_pid
    runtime = functools.cache(class_archive.ready)
    return Lab(directory, {alias: _open(record, directory, owner_pid, runtime) for alias, record in records.items()})


def down(directory: Path, *, discard_data: bool = False) -> tuple[str, ...]:
    """End what ``up`` has started; existing clusters are left as they are.

    Parameters
    ----------
    directory
        the lab's.
    discard_data
        remove data, logs and ``lab.json`` too; brokers are not stopped in order then.

    Returns
    -------
    what did not go as it should, a sentence each

    Raises
    ------
    LabError
        if there is no lab.
    """
    lab = load(directory)

    def end(cluster: LabCluster) -> tuple[str, ...]:
        if discard_data and cluster.provider == Provider.EMBEDDED:
            # Nothing is left to be kept in order; a voter that has just come back can wait for a quorum for good.
            cluster.kill()
        return cluster.shut_down()

    with ThreadPoolExecutor(max(1, len(lab.clusters))) as pool:
        answers = list(pool.map(end, lab.clusters.values()))
    if discard_data:
        for cluster in lab.clusters.values():
            cluster.discard()
        _state_path(lab.directory).unlink()
    return tuple(chain.from_iterable(answers))


def plan_records(
    known: Mapping[str, ClusterRecord],
    aliases: Sequence[str],
    brokers: int,
    provider: Provider,
    bootstrap: Mapping[str, str],
    choose_ports: Callable[[int], tuple[int, ...]],
    linked: Collection[str] = (),
    secured: Collection[str] = (),
    *,
    for_load: bool = False,
) -> dict[str, ClusterRecord]:
    """Return every cluster the lab is to know afterwards: the known ones unchanged, new ones laid out.

    Raises
    ------
    BadRequest
        if an alias cannot be one, is there twice, or is known as something else.
    """
    _check_aliases(aliases, bootstrap)
    if brokers < 1:
        raise BadRequest(f"a cluster has at least one broker, not {brokers}")
    kinds = {alias: Provider.EXISTING if alias in bootstrap else provider for alias in aliases}
    for wanted, what in ((linked, "have links"), (secured, "be secured")):
        others = sorted(alias for alias in wanted if kinds.get(alias) is not Provider.EMBEDDED)
        if others:
            raise BadRequest(f"only embedded clusters that are named can {what}, not {', '.join(others)}")
    if brokers > 1 and Provider.CONTAINERS in kinds.values():
        raise BadRequest("a cluster in a container has one broker; embedded clusters can have more")
    laid_out = [alias for alias, kind in kinds.items() if alias not in known and kind is not Provider.EXISTING]
    needed = {alias: ports_needed(brokers, linked=alias in linked, secured=alias in secured) for alias in laid_out}
    free = iter(choose_ports(sum(needed.values())) if needed else ())
    records = dict(known)
    for alias, kind in kinds.items():
        extras = {"linked": alias in linked, "secured": alias in secured}
        if alias in known:
            _check_unchanged(known[alias], kind, brokers, bootstrap.get(alias), **extras)
        elif kind is Provider.EXISTING:
            if alias not in bootstrap:
                raise BadRequest(f"where is the existing cluster {alias}? Give --bootstrap {alias}=HOST:PORT")
            records[alias] = ClusterRecord(kind, alias, bootstrap_servers=bootstrap[alias])
        else:
            own = list(islice(free, needed[alias]))
            layout = plan_layout(alias, new_cluster_id(), own, brokers, **extras, for_load=for_load)
            records[alias] = ClusterRecord(kind, alias, layout=layout)
    return records


def _check_aliases(aliases: Sequence[str], bootstrap: Mapping[str, str]) -> None:
    if not aliases:
        raise BadRequest("name at least one cluster")
    for alias, times in Counter(aliases).items():
        if not _ALIAS.fullmatch(alias):
            raise BadRequest(f"{alias!r} is no alias for a cluster: use letters, digits, '_' and '-'")
        if times > 1:
            raise BadRequest(f"the cluster {alias} is named {times} times")
    for alias, addresses in bootstrap.items():
        if alias not in aliases:
            raise BadRequest(f"{alias} has an address but is not among the clusters {', '.join(aliases)}")
        for address in addresses.split(","):
            try:
                existing.parse_address(address)
            except ValueError as problem:
                raise BadRequest(f"the address of {alias}: {problem}") from None


def _check_unchanged(
    record: ClusterRecord, provider: Provider, brokers: int, addresses: str | None, *, linked: bool, secured: bool
) -> None:
    remedy = "take it down and discard its data first, or use another directory"
    if record.provider is not provider:
        raise BadRequest(f"{record.alias} is known here as {record.provider}, not as {provider}: {remedy}")
    if record.layout is not None and len(record.layout.nodes) != brokers:
        raise BadRequest(
            f"{record.alias} is known here with {counted(len(record.layout.nodes), 'broker')}, not {brokers}: {remedy}"
        )
    if linked and record.layout is not None and record.layout.nodes[0].link is None:
        raise BadRequest(f"{record.alias} is known here without links: {remedy}")
    if secured and record.layout is not None and record.layout.nodes[0].secured_port is None:
        raise BadRequest(f"{record.alias} is known here as not secured: {remedy}")
    if addresses is not None and record.bootstrap_servers != addresses:
        raise BadRequest(f"{record.alias} is known here at {record.bootstrap_servers}, not {addresses}: {remedy}")


def _open(
    record: ClusterRecord, directory: Path, owner_pid: int | None, runtime: Callable[[], KafkaRuntime]
) -> LabCluster:
    """Return the handle on a recorded cluster."""
    if record.layout is None:
        return ExistingCluster(record.alias, record.bootstrap_servers or "")
    home = directory / record.alias
    if record.provider is Provider.CONTAINERS:
        return ContainerCluster(ContainerBroker(home, record.layout, owner_pid))
    return EmbeddedCluster.at(home, record.layout, runtime, owner_pid=owner_pid)


def _state_path(directory: Path) -> Path:
    return directory / "lab.json"


def encode_record(record: ClusterRecord) -> dict[str, Any]:
    """Return what stands in ``lab.json`` for a cluster."""
    return {key: value for key, value in asdict(record).items() if value is not None}


def decode_record(data: Mapping[str, Any]) -> ClusterRecord:
    """Return the cluster that ``encode_record`` wrote down."""
    layout = data.get("layout")
    return ClusterRecord(
        Provider(data["provider"]),
        data["alias"],
        layout and ClusterLayout(**{**layout, "nodes": tuple(_decode_node(node) for node in layout["nodes"])}),
        data.get("bootstrap_servers"),
    )


def _decode_node(data: Mapping[str, Any]) -> Node:
    link = data.get("link")
    return Node(**{**data, "link": link and LinkPorts(**link)})


def _write_records(directory: Path, owner_pid: int | None, records: Mapping[str, ClusterRecord]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    state = {"owner_pid": owner_pid, "clusters": [encode_record(record) for record in records.values()]}
    temporary = _state_path(directory).with_suffix(f".{os.getpid()}")
    temporary.write_text(json.dumps(state, indent=1) + "\n", "utf-8")
    temporary.replace(_state_path(directory))


def _read_records(directory: Path) -> tuple[int | None, dict[str, ClusterRecord]]:
    path = _state_path(directory)
    try:
        state = json.loads(path.read_text("utf-8"))
        records = [decode_record(data) for data in state["clusters"]]
        return state["owner_pid"], {record.alias: record for record in records}
    except FileNotFoundError:
        raise BadRequest(f"there is no lab in {directory}: start one with `mirror lab up`") from None
    except (ValueError, KeyError, TypeError) as problem:
        remedy = "remove the lab's directory and start anew"
        raise LabError(f"{path} is not what a lab writes ({problem!r}): {remedy}") from problem
