#!/bin/sh
# Fills in server.properties for this broker, formats its disk the first time, and becomes it.
# Set: NODE_ID or a host name that ends in -0, -1, …; VOTERS, HOST (among brokers), OUTSIDE (for clients), REPLICATION, IN_SYNC, CLUSTER_ID.
set -eu
: "${NODE_ID:=$((${HOSTNAME##*-} + 1))}" "${SECRETS:=/run/secrets/kafka}" "${DATA:=/var/lib/kafka/data}" "${BIN:=/opt/kafka/bin}"
sed -e "s|@NODE_ID@|$NODE_ID|g" -e "s|@VOTERS@|$VOTERS|g" -e "s|@HOST@|$HOST|g" -e "s|@OUTSIDE@|$OUTSIDE|g" \
    -e "s|@REPLICATION@|$REPLICATION|g" -e "s|@IN_SYNC@|$IN_SYNC|g" -e "s|@SECRETS@|$SECRETS|g" -e "s|@DATA@|$DATA|g" \
    "$(dirname "$0")/server.properties" > /tmp/server.properties
"$BIN/kafka-storage.sh" format --ignore-formatted -t "$CLUSTER_ID" -c /tmp/server.properties \
    --add-scram "SCRAM-SHA-512=[name=admin,password=$(cat "$SECRETS/admin.password")]"
exec "$BIN/kafka-server-start.sh" /tmp/server.properties
