# shellcheck shell=bash
# Launches the allocation and waits until its login works; run by Terraform with everything in the environment. Terraform runs
# no destroy provisioner for a resource that could not be made, so what was launched in vain is released here.
set -euo pipefail
arguments=(--sku "$SKU" --gpus "$GPUS" --image "$IMAGE" --name "$NAME" --label "terraform-resource=$RESOURCE")
[ -z "$PROJECT" ] || arguments+=(--project "$PROJECT")
[ -z "$REGION" ] || arguments+=(--region "$REGION")
while IFS= read -r key; do
    [ -z "$key" ] || arguments+=(--ssh-key "$key")
done <<< "$SSH_KEYS"
while IFS= read -r label; do
    [ -z "$label" ] || arguments+=(--label "$label")
done <<< "$LABELS"
ended() {
    local status=$?
    trap - EXIT
    [ $status = 0 ] || bash "$MODULE/release.sh" || echo "Release it yourself: gpuaas release $NAME" >&2
    exit $status
}
trap ended EXIT
trap 'exit 130' INT TERM
"$COMMAND" launch "${arguments[@]}" --wait --timeout "$SECONDS_TO_WAIT" --idempotency-key "terraform-$RESOURCE"
