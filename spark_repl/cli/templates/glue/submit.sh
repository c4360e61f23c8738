#!/bin/sh
# Uploads @config@, job.py and the wheel, and creates the Glue job @name@.
set -eu
: "${ROLE:?set it to the ARN of the role of the job}"
: "${ARTIFACTS:?set it to s3://bucket/prefix for these files}"
: "${WHEEL:?set it to the file of the wheel}"
for file in @config@ job.py "$WHEEL"; do aws s3 cp "$file" "$ARTIFACTS/$(basename "$file")"; done
sed -e "s|@artifacts@|$ARTIFACTS|" -e "s|@wheel@|$(basename "$WHEEL")|" -e "s|@role@|$ROLE|" \
  job.json > job.filled.json
aws glue create-job --cli-input-json file://job.filled.json
aws glue start-job-run --job-name @name@
