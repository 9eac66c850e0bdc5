#!/bin/bash
# PyPI's scim2-tester, which checks a SCIM server by what that declares: scim2-tester.sh URL, with an API key in SCIM_KEY. Every
# check must pass; one that it leaves out is printed. It is installed below .run once.
set -euo pipefail
programs=$(cd "$(dirname "$0")/../.." && pwd)/.run/test/scim2-tester/bin
if [ ! -x "$programs/python" ] || ! "$programs/python" -c 'import scim2_tester, httpx2' 2> /dev/null; then
    python3 -m venv "${programs%/bin}"
    "$programs/pip" install --quiet 'scim2-tester==0.5.2' 'scim2-client[httpx2]==0.13.2'
fi
exec "$programs/python" - "$1" << 'PYTHON'
import os
import sys

from httpx2 import Client
from scim2_client.engines.httpx2 import SyncSCIMClient
from scim2_tester import Status, check_server

key = os.environ["SCIM_KEY"]
client = Client(base_url=sys.argv[1], headers={"Authorization": f"Bearer {key}"}, timeout=30)
results = check_server(SyncSCIMClient(client))
good = {Status.SUCCESS, Status.COMPLIANT, Status.ACCEPTABLE}
skipped = [one for one in results if one.status == Status.SKIPPED]
failed = [one for one in results if one.status not in good and one.status != Status.SKIPPED]
for word, some in (("left out", skipped), ("FAILED", failed)):
    for one in some:
        print(f"{word}: {one.resource_type or ''} {one.title}: {one.status.name} {one.reason}")
print(f"{len(results)} checks, {len(skipped)} left out, {len(failed)} failed")
sys.exit(bool(failed) or len(results) < 20)
PYTHON
