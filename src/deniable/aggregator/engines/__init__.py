"""The two engines that count: `embedded`, one process, and `spark`, Structured Streaming over
Kafka."""
