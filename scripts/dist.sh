#!/bin/sh
# Makes ./dist: wheels and source distributions of Tidegate and of packages/, an SBOM (CycloneDX) of what the lock file
# installs with all of them and every extra, of Spark's jars and the pinned ones, and checksums of all. The version of each is that of
# the git tag; the release workflow attests to what lies there.
set -eu

uv=$(command -v uv || echo .tools/bin/uv)
rm -rf dist
"$uv" build --quiet --all-packages --out-dir dist
rm -f dist/.gitignore
"$uv" export --quiet --locked --all-packages --all-extras --no-dev --no-emit-workspace --format cyclonedx1.5 \
    --preview-features sbom-export --output-file dist/tidegate.cdx.json >/dev/null
.venv/bin/python scripts/inventory.py dist/tidegate.cdx.json
cd dist
sha256sum -- *.whl *.tar.gz *.cdx.json >SHA256SUMS
cat SHA256SUMS
