set -eu
for height in 240 120; do
	length=$(ffprobe -v error -show_entries format=duration -of csv=p=0 "$VIDEO_WORK/$height.mp4")
	awk -v d="$length" 'BEGIN { exit !(d >= 3.5 && d <= 4.5) }' || {
		echo "$height.mp4 lasts $length s, not 4" >&2
		exit 1
	}
done
count=$(ls "$VIDEO_WORK/snapshots" | wc -l | tr -d ' ')
[ "$count" -ge 4 ] || {
	echo "$count snapshots, at least 4 are needed" >&2
	exit 1
}
for picture in "$VIDEO_WORK"/snapshots/*.png; do
	if ffmpeg -nostdin -v info -i "$picture" -vf blackframe=amount=98 -f null - 2>&1 | grep -q 'pblack:'; then
		echo "$picture is black" >&2
		exit 1
	fi
done
echo "$count snapshots, two sizes" | tee "$AXD_OUTPUT_FILE"
