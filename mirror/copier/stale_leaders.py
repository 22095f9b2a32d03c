"""Leaders that have been replaced and have not heard of it: where their logs end says nothing of what was copied.

A broker that is cut off from its cluster, or comes back to one whose others are down, goes on as the leader it was. Its
log lacks what the leaders behind it wrote: taken at its word, a copy would be one of another log, or be made a second
time. Kafka's clients do not go back to an older leader epoch while they run (KIP-320); an engine knows those of what it
has copied from its state.
"""

from __future__ import annotations

from collections.abc import Mapping

from mirror.kafka.channel import Channel
from mirror.kafka.metadata import Metadata, metadata_request
from mirror.kafka.problems import ConnectionFailed
from mirror.model.leader_epochs import NOT_KNOWN
from mirror.model.partition import TopicPartition


def stale_leaders(channel: Channel, copied: Mapping[TopicPartition, int]) -> dict[TopicPartition, str]:
    """Return, for people, of which partitions a cluster names a leader that may have been replaced.

    A cluster that was restored as it had been before has older leaders, too: then all its brokers say the same.

    Parameters
    ----------
    copied
        the newest leader epoch under which was written what was copied, by partition; the leaders are known.

    Raises
    ------
    ConnectionFailed
        if no broker can be reached.
    """
    behind = {each: at for each in copied if NOT_KNOWN < (at := channel.leader_epoch(each)) < copied[each]}
    if not behind:
        return {}
    newest, untold = dict(behind), ""
    request = metadata_request({each.topic for each in behind})
    for broker in channel.call(request).brokers:
        heard = Metadata()
        try:
            heard.take_in((), channel.call(request, broker.node_id))
        except ConnectionFailed as failure:
            untold = str(failure)
            break
        newest = {each: max(at, heard.leader_epoch(each)) for each, at in newest.items()}
    return {
        each: f"{channel.alias} names a leader of {each} of leader epoch {at}, and records of epoch {copied[each]} "
        f"were copied: it may have been replaced, and not have heard of it{f' ({untold})' if untold else ''}"
        for each, at in behind.items()
        if untold or newest[each] >= copied[each]
    }
