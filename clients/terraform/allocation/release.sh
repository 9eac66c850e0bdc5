# shellcheck shell=bash
# Releases what this resource launched and waits until its disk is wiped; run by Terraform with everything in the environment.
# It is found by its label: another allocation of the same name, which made the launch fail, is left alone. Where nothing is
# found, the exit code is NOTHING_FOUND, or 0 without it.
set -euo pipefail
# the context may be of another project by now than at the launch
project=(--all-projects)
[ -z "$PROJECT" ] || project=(--project "$PROJECT")
found=$("$COMMAND" list "${project[@]}" --output name --filter "labels.\"terraform-resource\" = \"$RESOURCE\"")
case $found in
"")
    echo "No allocation has the label terraform-resource=$RESOURCE: there is nothing to release."
    exit "${NOTHING_FOUND:-0}"
    ;;
*[[:space:]]*)
    echo "Several allocations have the label terraform-resource=$RESOURCE. Release the right one yourself." >&2
    exit 1
    ;;
esac
"$COMMAND" release "$found" --wait --timeout 2100 --idempotency-key "terraform-$RESOURCE-release"
