# shellcheck shell=bash
# Releases what this resource launched and waits until its disk is wiped; run by Terraform with everything in the environment.
# It is found by its label: another allocation of the same name, which made the launch fail, is left alone.
set -euo pipefail
project=()
[ -z "$PROJECT" ] || project=(--project "$PROJECT")
found=$("$COMMAND" list "${project[@]}" --output name --filter "labels.\"terraform-resource\" = \"$RESOURCE\"")
for allocation in $found; do
    "$COMMAND" release "$allocation" "${project[@]}" --wait --timeout "$SECONDS_TO_WAIT" \
        --idempotency-key "terraform-$RESOURCE-release"
done
