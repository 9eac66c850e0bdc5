#!/bin/bash
# PyPI's schemathesis, which nobody here wrote, calls every operation of a gateway's OpenAPI document with what the document
# allows and with what it does not: schemathesis.sh URL FOLDER, with a token in API_TOKEN (none: as nobody), and the ids of a
# project and an organisation for paths that name one in PROJECT_ID and ORGANISATION_ID. It is installed below .run once.
#
# GPUAAS_SCHEMATHESIS_EXAMPLES: random requests for each operation, beside those that it makes from the document's limits.
# GPUAAS_SCHEMATHESIS_PHASES: what it does; `stateful` takes what one operation answers to the next.
# GPUAAS_SCHEMATHESIS_SEED: where its randomness begins; it is printed, and repeats a run.
set -euo pipefail
url=$1 folder=$2
programs=$(cd "$(dirname "$0")/../.." && pwd)/.run/test/schemathesis/bin
nobody=00000000-0000-7000-8000-000000000000
export PROJECT_ID=${PROJECT_ID:-$nobody} ORGANISATION_ID=${ORGANISATION_ID:-$nobody}
# tests that begin together install it once
mkdir -p "${programs%/*/bin}"
(
    flock 9
    if ! "$programs/schemathesis" --version 2> /dev/null | grep -q ' 4\.32\.5$'; then
        python3 -m venv --clear "${programs%/bin}"
        "$programs/pip" install --quiet --disable-pip-version-check 'schemathesis==4.32.5'
    fi
) 9> "${programs%/bin}.lock"

{
    # the token comes from the environment: an argument would show it
    # shellcheck disable=SC2016
    [ -z "${API_TOKEN:-}" ] || echo 'headers = { Authorization = "Bearer ${API_TOKEN}" }'
    cat << TOML
# a run depends on its seed alone, and leaves nothing in the checkout
[cache]
enabled = false

[parameters]
"path.project_id" = "$PROJECT_ID"
"path.organisation_id" = "$ORGANISATION_ID"

# What ends the project or the organisation would leave nothing to all other operations: these get ids of nobody.
[[operations]]
include-operation-id-regex = "_(Close|Suspend)(Project|Organisation)$"
parameters = { "path.project_id" = "$nobody", "path.organisation_id" = "$nobody" }
TOML
} > "$folder/schemathesis.toml"

export SCHEMATHESIS_HOOKS=schemathesis_hooks PYTHONDONTWRITEBYTECODE=1
PYTHONPATH=$(cd "$(dirname "$0")" && pwd)
export PYTHONPATH
# one worker: with two the tool's own strategies race ("Inconsistent results"), and a seed repeats nothing
exec "$programs/schemathesis" --config-file "$folder/schemathesis.toml" run "$url/api/openapi.json" --url "$url" \
    --phases "${GPUAAS_SCHEMATHESIS_PHASES:-examples,coverage,fuzzing}" \
    --checks "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance,negative_data_rejection,unsupported_method,allow_header_conformance,ignored_auth" \
    --max-examples "${GPUAAS_SCHEMATHESIS_EXAMPLES:-3}" --seed "${GPUAAS_SCHEMATHESIS_SEED:-1}" \
    --generation-database none --request-timeout 30 --workers 1 --continue-on-failure --suppress-health-check all \
    --output-sanitize true --no-color --warnings off
