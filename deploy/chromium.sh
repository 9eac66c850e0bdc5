#!/bin/bash
# Installs Chromium, which the tests of the console in a browser need. Quick and silent when it is there.
set -euo pipefail

# one at a time
exec 9< "$0"
flock 9
[ ! -x /usr/bin/chromium ] || exit 0
echo "installing chromium"
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium > /dev/null
