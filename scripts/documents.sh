#!/usr/bin/env bash
# documents.sh FOLDER: copies the documents and the files that they name into a folder, where their links work.
set -euo pipefail
cd "$(dirname "$0")/.."

to=$1
mkdir -p "$to/tests/python"
cp README.md CHANGELOG.md SECURITY.md ARCHITECTURE.md CONTRIBUTING.md LICENSE-APACHE LICENSE-MIT "$to/"
cp -r docs demo "$to/"
cp tests/python/check_proof.py "$to/tests/python/"
