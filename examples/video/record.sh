set -eu
mkdir -p "$VIDEO_WORK"
ffmpeg -nostdin -v error -y -f lavfi -i testsrc=duration=4:size=426x240:rate=15 -f lavfi -i sine=frequency=440:duration=4 \
	-c:v mpeg4 -q:v 3 -c:a aac -shortest film.mp4
mv film.mp4 "$VIDEO_WORK/film.mp4"
