#!/bin/sh
# Makes the users of two proxies and of an aggregator, and says what each may do. Run once, as admin:
#   BOOTSTRAP=kafka-0.kafka:9094 COMMAND_CONFIG=admin.properties SECRETS=/run/secrets/kafka ./acls.sh
# A proxy writes its own topic and nobody else's, and reads only what it wrote itself. Were it to read the other's, it could join
# shares and know whose they are. The aggregator reads the two topics of shares, and writes nothing.
set -eu
: "${BIN:=/opt/kafka/bin}" "${SECRETS:=/run/secrets/kafka}"

user() {
    "$BIN/kafka-configs.sh" --bootstrap-server "$BOOTSTRAP" --command-config "$COMMAND_CONFIG" --alter \
        --entity-type users --entity-name "$1" --add-config "SCRAM-SHA-512=[password=$(cat "$SECRETS/$1.password")]"
}
allow() {
    "$BIN/kafka-acls.sh" --bootstrap-server "$BOOTSTRAP" --command-config "$COMMAND_CONFIG" --add --allow-principal "$@"
}

user proxy-1
allow User:proxy-1 --operation Create --operation Describe --operation Read --operation Write --topic deniable.proxy-1
allow User:proxy-1 --operation Create --operation Describe --operation Read --operation Write --topic deniable.proxy-1.memory
allow User:proxy-1 --operation Describe --operation Write --transactional-id deniable.deniable.proxy-1

user proxy-2
allow User:proxy-2 --operation Create --operation Describe --operation Read --operation Write --topic deniable.proxy-2
allow User:proxy-2 --operation Create --operation Describe --operation Read --operation Write --topic deniable.proxy-2.memory
allow User:proxy-2 --operation Describe --operation Write --transactional-id deniable.deniable.proxy-2

user aggregator
allow User:aggregator --operation Describe --operation Read --topic deniable.proxy-1
allow User:aggregator --operation Describe --operation Read --topic deniable.proxy-2
