#!/bin/sh
# Build the wheel of a checkout and install it, with what it needs, into an empty environment: install.sh CHECKOUT ENVIRONMENT
# Every package is that of requirements.lock, and is checked against it. The image is made by it, and so is what a test runs.
set -eu
checkout=$1
environment=$2
wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT
uv build --quiet --wheel --build-constraints "$checkout/requirements.lock" --out-dir "$wheels" "$checkout"
uv venv --quiet ${PYTHON:+--python "$PYTHON"} "$environment"
uv pip install --quiet --python "$environment/bin/python" --compile-bytecode --verify-hashes \
  --constraints "$checkout/requirements.lock" --build-constraints "$checkout/requirements.lock" "$wheels"/*.whl
uv pip check --quiet --python "$environment/bin/python"
