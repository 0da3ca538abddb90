"""The reader's side: publish and stop queries, read and follow results over the aggregator's HTTP
interface."""
