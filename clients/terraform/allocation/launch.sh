# shellcheck shell=bash
# Launches the allocation and waits until its login works; run by Terraform with everything in the environment.
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
exec "$COMMAND" launch "${arguments[@]}" --wait --timeout "$SECONDS_TO_WAIT" --idempotency-key "terraform-$RESOURCE"
