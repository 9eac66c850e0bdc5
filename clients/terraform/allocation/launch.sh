# shellcheck shell=bash
# Launches the allocation and waits until its login works; run by Terraform with everything in the environment. Terraform runs
# no destroy provisioner for a resource that could not be made, so what was launched in vain is released here. A Terraform that
# is interrupted kills this shell at once, which no trap sees: a process that outlives it releases in its place.
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
# Ends the launch when Terraform or its shell is gone.
watch() {
    exec > /dev/null 2>&1
    while kill -0 $$ && kill -0 "$PPID"; do sleep 1; done
    kill -KILL "$1"
}
# Outlives the shell: Ctrl-C reaches it, too, and Terraform's pipes may be closed by the time it has something to print.
launch() {
    trap '' INT TERM HUP PIPE
    "$COMMAND" launch "${arguments[@]}" --wait --timeout "$SECONDS_TO_WAIT" --idempotency-key "terraform-$RESOURCE" &
    local launched=$! status=0
    watch "$launched" &
    local watching=$!
    disown "$watching"
    wait "$launched" || status=$?
    kill -KILL "$watching" 2> /dev/null || true
    if kill -0 $$ 2> /dev/null; then
        [ $status = 0 ] || bash "$MODULE/release.sh" || echo "Release it yourself: gpuaas release $NAME" >&2
        exit $status
    fi
    exec > /dev/null 2>&1
    # Until the request of the launch has timed out (60 s), it may be accepted after a look that found nothing; 9 is no exit
    # code of the command line. The last look is only for an API that did not answer.
    local slept=0 pause
    for pause in 2 10 20 40 300; do
        sleep $pause
        slept=$((slept + pause)) status=0
        NOTHING_FOUND=9 bash "$MODULE/release.sh" || status=$?
        [ $status != 0 ] || break
        if [ $status = 9 ] && [ $slept -gt 60 ]; then break; fi
    done
}
launch &
wait $!
