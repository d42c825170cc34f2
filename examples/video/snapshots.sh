# One picture a second.
set -eu
ffmpeg -nostdin -v error -y -i "$VIDEO_WORK/240.mp4" -vf fps=1 snapshot-%02d.png
mkdir -p "$VIDEO_WORK/snapshots"
mv snapshot-*.png "$VIDEO_WORK/snapshots/"
