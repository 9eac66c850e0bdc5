#!/bin/bash
# PyPI's canaille, an identity provider that nobody here wrote: canaille.sh PORT CALLBACK SECONDS FOLDER. Its user ada has the
# password correct-horse; the client console, at the origin of CALLBACK, gets access tokens for gpuaas-api that live so many
# seconds. It is installed below .run once.
set -euo pipefail
port=$1 callback=$2 seconds=$3 folder=$4
origin=${callback%/sign-in/callback}
programs=$(cd "$(dirname "$0")/../.." && pwd)/.run/test/canaille/bin
mkdir -p "${programs%/bin}"
# two tests come here at once on a new machine
exec 9> "${programs%/bin}/lock"
flock 9
if [ ! -x "$programs/canaille" ]; then
    python3 -m venv "${programs%/bin}"
    "$programs/pip" install --quiet 'canaille[sqlite,front,oidc,server]==0.3.6'
fi
exec 9>&-
canaille() { "$programs/canaille" "$@" 2>> "$folder/canaille.log"; }
cat > "$folder/canaille.toml" << TOML
SECRET_KEY = "of a test"
PREFERRED_URL_SCHEME = "http"
SERVER_NAME = "127.0.0.1:$port"
OAUTH2_TOKEN_EXPIRES_IN = { authorization_code = $seconds, refresh_token = $seconds }
[CANAILLE]
DATABASE = "sql"
[CANAILLE_SQL]
DATABASE_URI = "sqlite:///$folder/canaille.sqlite"
[CANAILLE_OIDC]
# it would ask nobody for consent to a client of this machine
TRUSTED_DOMAINS = []
ACTIVE_JWKS = [$(cd "$folder" && CANAILLE_CONFIG='' canaille jwk create rsa --format toml)]
TOML
export CANAILLE_CONFIG=$folder/canaille.toml
canaille install
canaille create user --quiet --user-name ada --password correct-horse --family-name Lovelace --emails ada@example.com
canaille create client --quiet --client-id gpuaas-api --client-name api
canaille create client --quiet --client-id console --client-name console --redirect-uris "$callback" \
    --client-uri "$origin" --post-logout-redirect-uris "$origin/" \
    --token-endpoint-auth-method none --grant-types authorization_code --grant-types refresh_token \
    --response-types code --scope openid --scope offline_access
canaille set client console --audience gpuaas-api > /dev/null
exec "$programs/canaille" run --bind "127.0.0.1:$port" >> "$folder/canaille.log" 2>&1
