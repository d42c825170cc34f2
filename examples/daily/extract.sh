. "$DAILY_HOME/day.sh"
if [ ! -f "$DAILY_WORK/incoming/$day.csv" ]; then
	echo "no delivery for $day yet" >&2
	exit 75
fi
tail -n +2 "$DAILY_WORK/incoming/$day.csv" | appear "$dir/raw.csv"
wc -l <"$dir/raw.csv" | tr -d ' ' >"$AXD_OUTPUT_FILE"
