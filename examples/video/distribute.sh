# What was reviewed, with a list of checksums, appears as a whole.
set -eu
mkdir new
cp "$VIDEO_WORK/240.mp4" "$VIDEO_WORK/120.mp4" new/
cp -r "$VIDEO_WORK/snapshots" new/
(cd new && find . -type f | sort | xargs sha256sum >../SHA256SUMS && mv ../SHA256SUMS .)
rm -rf "$VIDEO_WORK/dist"
mv new "$VIDEO_WORK/dist"
