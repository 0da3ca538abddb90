#!/bin/sh
# What the operator of Kafka brings: the brokers' key and chain in one file, the authority that signed it, and a password for each user.
set -eu
NAMESPACE=deniable-kafka
kubectl -n "$NAMESPACE" create secret generic kafka --from-file=keystore.pem=keystore.pem --from-file=ca.crt=ca.crt \
    --from-file=admin.password=admin.password --from-file=proxy-1.password=proxy-1.password \
    --from-file=proxy-2.password=proxy-2.password --from-file=aggregator.password=aggregator.password
