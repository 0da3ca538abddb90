#!/bin/sh
# Makes an authority, certificates and passwords in a folder, for trying things out: ./make-secrets.sh secrets
# In earnest every operator has keys of its own, made where they are used and seen by nobody else.
set -eu
umask 077
mkdir -p "$1"
cd "$1"

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 365 -subj "/CN=deniable example authority" \
    -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign,cRLSign" -keyout ca.key -out ca.crt 2>/dev/null

certificate() {
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$1" -keyout "$1.key" -out "$1.csr" 2>/dev/null
    printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth,clientAuth\n' "$2" > "$1.ext"
    openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 365 -extfile "$1.ext" -out "$1.crt" 2>/dev/null
    rm "$1.csr" "$1.ext"
}
certificate kafka "DNS:kafka,DNS:localhost,DNS:*.kafka.example,DNS:*.kafka.deniable-kafka.svc.cluster.local,IP:127.0.0.1"
certificate proxy-1 "DNS:proxy-1,DNS:localhost,IP:127.0.0.1"
certificate proxy-2 "DNS:proxy-2,DNS:localhost,IP:127.0.0.1"
certificate aggregator "DNS:aggregator,DNS:localhost,IP:127.0.0.1"
cat kafka.key kafka.crt > keystore.pem

for user in admin proxy-1 proxy-2 aggregator; do
    openssl rand -hex 24 > "$user.password"
done
chmod 644 ./*  # containers run as other users; the folder keeps everybody else out
chmod 600 ca.key
