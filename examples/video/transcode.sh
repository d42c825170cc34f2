set -eu
height=$(cat "$AXD_PAYLOAD_FILE")
ffmpeg -nostdin -v error -y -i "$VIDEO_WORK/film.mp4" -vf "scale=-2:$height" -c:v mpeg4 -q:v 6 -c:a aac "$height.mp4"
mv "$height.mp4" "$VIDEO_WORK/$height.mp4"
