#!/bin/sh
# What the proxy's operator brings: certificate and key for its own address, the ring of analysts' keys that it relays for, and the
# password that the operator of Kafka gave it. Tokens of devices are made in the pod and kept there (docs/deploy.md).
set -eu
NAMESPACE=deniable-proxy-1
kubectl -n "$NAMESPACE" create secret tls proxy-tls --cert=tls.crt --key=tls.key
kubectl -n "$NAMESPACE" create secret generic proxy-kafka --from-file=password=kafka.password --from-file=ca.crt=kafka-ca.crt
kubectl -n "$NAMESPACE" create configmap ring --from-file=ring.json=ring.json
