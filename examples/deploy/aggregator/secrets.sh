#!/bin/sh
# What the aggregator's operator brings: certificate and key for its own address, the ring of the analysts whose queries it takes, its
# password for Kafka, and the operator's token that each proxy gave it, for publishing queries there.
set -eu
NAMESPACE=deniable-aggregator
kubectl -n "$NAMESPACE" create secret tls aggregator-tls --cert=tls.crt --key=tls.key
kubectl -n "$NAMESPACE" create secret generic aggregator-kafka --from-file=password=kafka.password --from-file=ca.crt=kafka-ca.crt
kubectl -n "$NAMESPACE" create secret generic aggregator-proxies --from-file=proxy-1.token=proxy-1.token --from-file=proxy-2.token=proxy-2.token
kubectl -n "$NAMESPACE" create configmap ring --from-file=ring.json=ring.json
